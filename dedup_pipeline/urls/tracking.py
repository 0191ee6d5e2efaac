"""Query parameters that only tell a web-analytics or advertising service where a visit came from.

The list is our own, written from the services' documentation. A name stands here only if it is
specific to one service and never chooses what a page shows; general words (``ref``, ``source``,
``keyword``, ``campaign``, ``uid``) never do. Names are whole names, never prefixes: ``_ga`` does not touch
``_gallery``, and map coordinates (``utm_zone``, ``utm_x``) stay. They are matched in any letter case.

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


SERVICES: Final[tuple[Service, ...]] = (
    Service(
        "Google Analytics campaigns",
        "Google Analytics help, 'URL builders: collect campaign data with custom URLs'",
        (
            "utm_source", "utm_medium", "utm_campaign", "utm_term", "utm_content", "utm_id", "utm_source_platform",
            "utm_creative_format", "utm_marketing_tactic",
        ),
    ),
    Service(
        "Campaign names in use beside the documented ones",
        "seen on links written by feed readers, mail tools and share buttons",
        (
            "utm_name", "utm_cid", "utm_reader", "utm_referrer", "utm_pubreferrer", "utm_viz_id", "utm_swu",
            "utm_social", "utm_social-type", "utm_brand", "utm_keyword", "utm_hp_ref", "utm_campaignid",
            "utm_adgroup", "utm_adid", "utm_network", "utm_device", "utm_matchtype", "utm_placement",
            "utm_creative", "utm_email", "utm_emailid", "utm_mailing", "utm_channel", "utm_affiliate",
        ),
    ),
    Service("Google Analytics linker", "Google tag help, 'Set up cross-domain measurement'", ("_ga", "_gl", "_gac")),
    Service(
        "Google Ads, Campaign Manager, Merchant Center",
        "Google Ads help, 'Auto-tagging'; Merchant Center help, 'Auto-tagging'",
        ("gclid", "gclsrc", "dclid", "gbraid", "wbraid", "gad_source", "gad_campaignid", "srsltid"),
    ),
    Service(
        "Meta",
        "Meta for Developers, 'fbp and fbc parameters'; Open Graph stories (2012-2014)",
        (
            "fbclid", "igshid", "igsh", "fb_action_ids", "fb_action_types", "fb_source", "fb_ref",
            "action_object_map", "action_type_map", "action_ref_map",
        ),
    ),
    Service("Microsoft Advertising", "Microsoft Advertising help, 'Auto-tagging of click ID'", ("msclkid",)),
    Service("X", "X Business help, 'Website conversion tracking'", ("twclid",)),
    Service("TikTok", "TikTok Business help, 'About TikTok click ID'", ("ttclid",)),
    Service("LinkedIn", "LinkedIn Marketing help, 'Enhanced conversion tracking'", ("li_fat_id",)),
    Service("Pinterest", "Pinterest developers, 'Conversions: click id'", ("epik",)),
    Service("Snapchat", "Snap Business help, 'Click ID'", ("sccid",)),
    Service("Reddit", "Reddit Ads help, 'Click ID'", ("rdt_cid",)),
    Service("Yandex", "Yandex Direct help, 'Link tagging'; Metrica", ("yclid", "ysclid", "_openstat")),
    Service(
        "Matomo",
        "Matomo guide, 'Tracking campaigns'",
        (
            "mtm_campaign", "mtm_keyword", "mtm_kwd", "mtm_source", "mtm_medium", "mtm_content", "mtm_cid",
            "mtm_group", "mtm_placement", "matomo_campaign", "matomo_kwd", "pk_campaign", "pk_keyword", "pk_kwd",
            "pk_source", "pk_medium", "pk_content", "pk_cid", "piwik_campaign", "piwik_kwd",
        ),
    ),
    Service("Mailchimp", "Mailchimp developers, 'E-commerce tracking'", ("mc_cid", "mc_eid")),
    Service(
        "HubSpot",
        "HubSpot knowledge base, 'Cookies and tracking parameters'",
        ("_hsenc", "_hsmi", "__hssc", "__hstc", "__hsfp", "hsctatracking"),
    ),
    Service("Marketo", "Adobe Marketo Engage developers, 'Munchkin'", ("mkt_tok",)),
    Service("Klaviyo", "Klaviyo help, '_kx parameter'", ("_kx",)),
    Service("Omeda", "Omeda knowledge base, 'Olytics'", ("oly_anon_id", "oly_enc_id")),
    Service("Vero", "Vero help, 'Conversion tracking'", ("vero_id", "vero_conv")),
    Service("Adobe Advertising", "Adobe Advertising help, 'Click IDs'", ("ef_id", "s_kwcid")),
    Service("Affiliate networks", "CJ, 'cjevent'; impact.com, 'Click ID'", ("cjevent", "irclickid")),
)

TRACKING_PARAMETERS: Final[frozenset[str]] = frozenset(name for service in SERVICES for name in service.parameters)
