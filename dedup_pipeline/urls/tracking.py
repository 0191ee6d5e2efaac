"""Query parameters that only tell a web-analytics or advertising service where a visit came from.

The list is our own, written from what the services document; ``source`` says where to look. A name stands
here only if it belongs to such a service alone and does not choose what a page shows; general words
(``ref``, ``source``, ``keyword``, ``campaign``, ``uid``) never do. Names are whole names, never prefixes:
``_ga`` does not touch ``_gallery``, and map coordinates (``utm_zone``, ``utm_x``) stay. Letter case does not count.

A change of the list changes keys, so it must raise ``TRACKING_VERSION``, which every state folder records.
"""

from __future__ import annotations

from typing import Final, NamedTuple

TRACKING_VERSION: Final = "1"


class Service(NamedTuple):
    """One service, where it documents its parameters, and their names in lower case."""

    name: str
    source: str
    parameters: tuple[str, ...]


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


SERVICES: Final[tuple[Service, ...]] = (
    Service(
        "Google Analytics campaigns",
        "Google Analytics help on campaign URLs",
        _names(
            "utm_source utm_medium utm_campaign utm_term utm_content utm_id utm_source_platform "
            "utm_creative_format utm_marketing_tactic"
        ),
    ),
    Service(
        "Campaign names of other tools in the same style",
        "names met on real links of 2013 (utm_hp_ref on 291 of 781,727), and those of feed readers and Yandex Metrica",
        ("utm_cid", "utm_expid", "utm_hp_ref", "utm_name", "utm_pubreferrer", "utm_reader", "utm_referrer"),
    ),
    Service("Google Analytics linker", "Google tag help on cross-domain measurement", ("_ga", "_gl", "_gac")),
    Service(
        "Google Ads, Campaign Manager, Merchant Center",
        "Google Ads and Merchant Center help on auto-tagging",
        ("gclid", "gclsrc", "dclid", "gbraid", "wbraid", "gad_source", "gad_campaignid", "srsltid"),
    ),
    Service(
        "Meta",
        "Meta for Developers on click ids; links written by Open Graph stories (2012-2014)",
        _names(
            "fbclid igshid igsh fb_action_ids fb_action_types fb_source fb_ref action_object_map "
            "action_type_map action_ref_map"
        ),
    ),
    Service("Microsoft Advertising", "Microsoft Advertising help on auto-tagging", ("msclkid",)),
    Service("X", "X Business help on website conversion tracking", ("twclid",)),
    Service("TikTok", "TikTok Business help on the TikTok click ID", ("ttclid",)),
    Service("LinkedIn", "LinkedIn Marketing help on enhanced conversion tracking", ("li_fat_id",)),
    Service("Pinterest", "Pinterest developers on the click id of conversions", ("epik",)),
    Service("Snapchat", "Snap Business help on the click id", ("sccid",)),
    Service("Reddit", "Reddit Ads help on the click id", ("rdt_cid",)),
    Service("Yandex", "Yandex Direct help on link tagging; Yandex Metrica", ("yclid", "ysclid", "_openstat")),
    Service(
        "Matomo",
        "Matomo guide on tracking campaigns",
        _names(
            "mtm_campaign mtm_keyword mtm_kwd mtm_source mtm_medium mtm_content mtm_cid mtm_group "
            "mtm_placement matomo_campaign matomo_kwd pk_campaign pk_keyword pk_kwd pk_source pk_medium "
            "pk_content pk_cid piwik_campaign piwik_kwd"
        ),
    ),
    Service("Mailchimp", "Mailchimp developers on e-commerce tracking", ("mc_cid", "mc_eid")),
    Service(
        "HubSpot",
        "HubSpot knowledge base on cookies and tracking parameters",
        ("_hsenc", "_hsmi", "__hssc", "__hstc", "__hsfp", "hsctatracking"),
    ),
    Service("Marketo", "Adobe Marketo Engage developers on Munchkin", ("mkt_tok",)),
    Service("Klaviyo", "Klaviyo help on the _kx parameter", ("_kx",)),
    Service("Omeda", "Omeda knowledge base on Olytics", ("oly_anon_id", "oly_enc_id")),
    Service("Vero", "Vero help on conversion tracking", ("vero_id", "vero_conv")),
    Service("Adobe Advertising", "Adobe Advertising help on click IDs", ("ef_id", "s_kwcid")),
    Service("Affiliate networks", "CJ and impact.com on their click ids", ("cjevent", "irclickid")),
)

TRACKING_PARAMETERS: Final[frozenset[str]] = frozenset(name for service in SERVICES for name in service.parameters)
