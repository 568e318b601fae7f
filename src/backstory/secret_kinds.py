"""Table of secrets that have a known prefix: name, prefixes, pattern, and samples for the tests.

Prefixes, alphabets and lengths come from the issuers' documentation or from public lists of rules.
"""

#: Matches where a token can start: not inside a word, but after an escape (\n, \u000a, %3D, a terminal colour).
START = (
    r"(?:(?<![A-Za-z0-9])|(?<=\\[a-z])|(?<=%[0-9A-Fa-f]{2})|(?<=\\u[0-9a-fA-F]{4})"
    r"|(?<=\[m)|(?<=[\[;]\dm)|(?<=[\[;]\d\dm)|(?<=;\d\d\dm))"
)
_B64 = "AbCd0123EfGh4567"  # the samples are built from this; it is not a real key
_HEX = "0123abcd"
_UUID = "0123abcd-0123-4abc-8def-0123456789ab"

#: Kinds whose literal is not at their start: the word before it is part of the secret.
REACHES_BACK = frozenset(("jwt", "terraform", "azure-ad", "maxmind", "mailchimp"))

#: One row per kind: name, prefixes that `prefilter` searches, pattern, samples. The pattern is matched where a prefix
#: occurs. If it has a group, only that is redacted. `(?i)` makes prefixes case-insensitive.
SECRETS: tuple[tuple[str, tuple[str, ...], str, tuple[str, ...]], ...] = (
    ("age-key", ("AGE-SECRET-KEY-1",), r"AGE-SECRET-KEY-1[A-Z0-9]{20,}", ("AGE-SECRET-KEY-1" + "QPZRY9X8" * 7,)),
    (
        "aws-key-id",
        ("AKIA", "ASIA", "ABIA", "ACCA"),
        r"A(?:KI|SI|BI|CC)A[A-Z0-9]{16}(?![A-Za-z0-9])",
        ("AKIA" + "ABCD2345" * 2, "ASIA" + "ABCD2345" * 2),
    ),
    ("aws-bedrock", ("ABSK",), r"ABSK[A-Za-z0-9+/]{60,}={0,2}", ("ABSK" + _B64 * 7,)),
    ("alibaba", ("LTAI",), r"LTAI[A-Za-z0-9]{12,26}(?![A-Za-z0-9])", ("LTAI" + "a1B2c" * 4,)),
    ("artifactory", ("AKC",), r"AKCp[A-Za-z0-9]{60,}", ("AKCp" + _B64 * 4 + "aB3dE6gHi",)),
    ("artifactory", ("cmVm",), r"cmVmd[A-Za-z0-9]{59}(?![A-Za-z0-9])", ("cmVmd" + _B64 * 3 + "aB3dE6gHi1j",)),
    ("google-api", ("AIza",), r"AIza[\w-]{35}(?![\w-])", ("AIza" + "SyA1b2C" * 5,)),
    ("google-oauth", ("GOCSPX-",), r"GOCSPX-[\w-]{20,}", ("GOCSPX-" + "aB3dE6_" * 4,)),
    ("google-oauth", ("ya29.",), r"ya29\.[\w-]{20,}", ("ya29." + _B64 * 3,)),
    (
        "digitalocean",
        ("dop_v1_", "doo_v1_", "dor_v1_"),
        r"do[por]_v1_[0-9a-f]{40,}",
        ("dop_v1_" + _HEX * 8, "dor_v1_" + _HEX * 8),
    ),
    ("databricks", ("dapi",), r"dapi[0-9a-f]{32}(?:-\d)?(?![A-Za-z0-9])", ("dapi" + _HEX * 4,)),
    ("azure-ad", ("Q~",), r"[\w~.]{3}\dQ~[\w~.-]{31,}", ("aB38Q~" + "aB3dE6_h-" * 3 + "aB3dE6g",)),
    ("cloudflare", ("v1.0-",), r"v1\.0-[0-9a-f]{24}-[0-9a-f]{100,}", ("v1.0-" + _HEX * 3 + "-" + _HEX * 18 + "ab",)),
    ("heroku", ("HRKU-",), r"HRKU-[\w-]{30,}", ("HRKU-AA" + "aB3dE6_h-" * 6 + "aB3d",)),
    (
        "fly",
        ("fo1_", "fm1a_", "fm1r_", "fm2_"),
        r"f(?:o1|m1[ar]|m2)_[\w+/-]{40,}={0,3}",
        ("fm2_" + _B64 * 7, "fo1_" + "aB3dE6_h-" * 5),
    ),
    (
        "doppler",
        ("dp.pt.", "dp.st.", "dp.ct.", "dp.sa.", "dp.scim.", "dp.audit."),
        r"dp\.(?:pt|st|ct|sa|scim|audit)\.(?:[\w-]{2,35}\.)?[A-Za-z0-9]{40,}",
        ("dp.pt." + _B64 * 2 + "aB3dE6gHi1j",),
    ),
    (
        "dynatrace",
        ("dt0c01.",),
        r"dt0c01\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{60,}",
        ("dt0c01." + "ABCD2345" * 3 + "." + "ABCD2345" * 8,),
    ),
    ("vault", ("hvs.", "hvb."), r"hv[sb]\.[\w-]{24,}", ("hvs." + _B64 * 2, "hvb." + _B64 * 9)),
    (
        "vault",
        ("s.",),
        r"s\.(?=[A-Za-z]{0,23}\d)(?=[a-z0-9]{0,23}[A-Z])[A-Za-z0-9]{24}(?![\w.(-])",
        ("s." + "aB3dE6" * 4,),
    ),
    (
        "terraform",
        (".atlasv1.",),
        r"[A-Za-z0-9]{10,20}\.atlasv1\.[\w=-]{40,}",
        ("aB3dE6gHi1jK2l" + ".atlasv1." + _B64 * 4,),
    ),
    ("pulumi", ("pul-",), r"pul-[0-9a-f]{40}", ("pul-" + _HEX * 5,)),
    (
        "planetscale",
        ("pscale_tkn_", "pscale_oauth_", "pscale_pw_"),
        r"pscale_(?:tkn|oauth|pw)_[\w=.-]{30,}",
        ("pscale_tkn_" + _B64 * 2,),
    ),
    ("neon", ("napi_",), r"napi_[a-z0-9]{40,}", ("napi_" + "a1b2" * 16,)),
    ("supabase", ("sbp_",), r"sbp_[0-9a-f]{40}", ("sbp_" + _HEX * 5,)),
    ("supabase", ("sb_secret_",), r"sb_secret_[\w-]{20,}", ("sb_secret_" + _B64 * 2,)),
    ("tailscale", ("tskey-",), r"tskey-[a-z]{2,12}-[A-Za-z0-9-]{20,}", ("tskey-auth-" + "kAbCd0123EfGh-" + _B64 * 2,)),
    ("vercel", ("vcp_",), r"vcp_[A-Za-z0-9]{24,}", ("vcp_" + "aB3dE6gH" * 4,)),
    ("netlify", ("nfp_",), r"nfp_[A-Za-z0-9]{36,}", ("nfp_" + _B64 * 3,)),
    ("render", ("rnd_",), r"rnd_[A-Za-z0-9]{28,}", ("rnd_" + _B64 * 2,)),
    ("openshift", ("sha256~",), r"sha256~[\w-]{43}(?![\w-])", ("sha256~" + _B64 * 2 + "aB3dE6gHi1j",)),
    ("yandex", ("AQVN",), r"AQVN[\w-]{35,38}(?![\w-])", ("AQVN" + _B64 * 2 + "aB3d",)),
    (
        "1password",
        ("A3-",),
        r"A3-[A-Z0-9]{6}-[A-Z0-9]{6}-?[A-Z0-9]{5}-[A-Z0-9]{5}-[A-Z0-9]{5}-[A-Z0-9]{5}",
        ("A3-ASWWYB-798JRY-LJVD4-23DC2-86TVM-H43EB",),
    ),
    ("1password", ("ops_",), r"ops_eyJ[A-Za-z0-9+/]{100,}={0,3}", ("ops_eyJ" + _B64 * 17,)),
    ("github", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), r"gh[pousr]_[A-Za-z0-9]{20,}", ("ghp_" + "a1B2" * 9,)),
    (
        "github",
        ("github_pat_",),
        r"github_pat_[A-Za-z0-9]{16}\w{10,}",
        ("github_pat_" + "11ABC" * 5 + "_" + "aB3" * 19,),
    ),
    (
        "gitlab",
        ("glpat-", "gldt-", "glrt-", "glcbt-", "glptt-", "glft-", "glimt-", "glagent-", "gloas-", "glsoat-", "glffct-"),
        r"gl(?:pat|dt|rt|cbt|ptt|ft|imt|agent|oas|soat|ffct)-[\w.-]{20,}",
        ("glpat-" + "aB3dE" * 4, "glcbt-64_" + "aB3dE" * 4, "glptt-" + _HEX * 5),
    ),
    ("gitlab", ("GR1348941",), r"GR1348941[\w-]{20,}", ("GR1348941" + "aB3dE" * 4,)),
    ("bitbucket", ("ATBB",), r"ATBB[A-Za-z0-9]{24,}", ("ATBB" + _B64 * 2,)),
    ("atlassian", ("ATATT", "ATCTT"), r"AT[AC]TT[A-Za-z0-9][\w=-]{40,}", ("ATATT3xFf" + _B64 * 5,)),
    ("npm", ("npm_",), r"npm_[A-Za-z0-9]{30,}", ("npm_" + "a1B2" * 9,)),
    ("pypi", ("pypi-",), r"pypi-AgE[\w-]{40,}", ("pypi-AgEIcHlwaS5vcmc" + "aB3dE6_h-" * 10,)),
    ("rubygems", ("rubygems_",), r"rubygems_[0-9a-f]{48}", ("rubygems_" + _HEX * 6,)),
    ("clojars", ("CLOJARS_",), r"CLOJARS_[a-z0-9]{60}", ("CLOJARS_" + "a1b2" * 15,)),
    ("nuget", ("oy2",), r"oy2[a-z0-9]{43}(?![A-Za-z0-9])", ("oy2" + "a1b2c3d" * 6 + "e",)),
    ("docker", ("dckr_pat_", "dckr_oat_"), r"dckr_[po]at_[\w-]{20,}", ("dckr_pat_" + "aB3dE6_h-" * 3,)),
    ("circleci", ("CCIPAT_", "CCIPRJ_"), r"CCIP(?:AT|RJ)_\w{20,}", ("CCIPAT_" + _B64 + "_" + _HEX * 5,)),
    ("buildkite", ("bkua_",), r"bkua_[0-9a-z]{40}", ("bkua_" + _HEX * 5,)),
    ("sonar", ("squ_", "sqp_", "sqa_"), r"sq[upa]_[0-9a-f]{40}", ("squ_" + _HEX * 5,)),
    ("sourcegraph", ("sgp_",), r"sgp_(?:[0-9a-f]{16}_|local_)?[0-9a-f]{40}", ("sgp_" + _HEX * 2 + "_" + _HEX * 5,)),
    ("octopus", ("API-",), r"API-[A-Z0-9]{26}(?![A-Za-z0-9])", ("API-" + "ABCD2345" * 3 + "AB",)),
    ("scalingo", ("tk-us-",), r"tk-us-[\w-]{40,}", ("tk-us-" + _B64 * 3,)),
    ("infracost", ("ico-",), r"ico-[A-Za-z0-9]{32}(?![A-Za-z0-9])", ("ico-" + _B64 * 2,)),
    ("readme", ("rdme_",), r"rdme_[a-z0-9]{60,}", ("rdme_" + "a1b2" * 17 + "a1",)),
    ("prefect", ("pnu_", "pnb_"), r"pn[ub]_[A-Za-z0-9]{36}", ("pnu_" + "a1B2" * 9,)),
    (
        "harness",
        ("pat.", "sat."),
        r"[ps]at\.[\w-]{22}\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{20}",
        ("pat." + "aB3dE6gHi1jK2lM3nO4pQ5" + "." + "aB3dE6" * 4 + "." + "aB3dE" * 4,),
    ),
    ("postman", ("PMAK-",), r"PMAK-[0-9a-f]{24}-[0-9a-f]{34}", ("PMAK-" + _HEX * 3 + "-" + _HEX * 4 + "ab",)),
    ("settlemint", ("sm_aat_", "sm_pat_", "sm_sat_"), r"sm_[aps]at_[A-Za-z0-9]{16,}", ("sm_pat_" + _B64,)),
    ("intra42", ("s-s4t2ud-", "s-s4t2af-"), r"s-s4t2(?:ud|af)-[0-9a-f]{64}", ("s-s4t2ud-" + _HEX * 8,)),
    ("anthropic", ("sk-",), r"sk-ant-[\w-]{20,}", ("sk-ant-api03-" + _B64 * 5,)),
    ("openrouter", ("sk-",), r"sk-or-[\w-]{20,}", ("sk-or-v1-" + "0a1b2c3d" * 8,)),
    ("openai", ("sk-",), r"sk-(?:(?:proj|svcacct|admin|None)-[\w-]{20,}|[A-Za-z0-9]{20,})", ("sk-proj-" + _B64 * 3,)),
    (
        "huggingface",
        ("hf_", "api_org_"),
        r"(?:hf|api_org)_[A-Za-z0-9]{30,}",
        ("hf_" + "aBcDeFgHiJ" * 3 + "kLmN", "api_org_" + "aBcDeFgHiJ" * 3 + "kLmN"),
    ),
    ("groq", ("gsk_",), r"gsk_[A-Za-z0-9]{40,}", ("gsk_" + _B64 * 3 + "aB3d",)),
    ("replicate", ("r8_",), r"r8_[A-Za-z0-9]{30,}", ("r8_" + "aB3dE6gHi" * 4,)),
    ("perplexity", ("pplx-",), r"pplx-[A-Za-z0-9]{40,}", ("pplx-" + _B64 * 3,)),
    ("xai", ("xai-",), r"xai-[A-Za-z0-9]{60,}", ("xai-" + _B64 * 5,)),
    (
        "langsmith",
        ("lsv2_pt_", "lsv2_sk_"),
        r"lsv2_(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10}",
        ("lsv2_pt_" + _HEX * 4 + "_" + "0123abcdef",),
    ),
    (
        "slack",
        ("xoxa-", "xoxb-", "xoxc-", "xoxd-", "xoxe-", "xoxo-", "xoxp-", "xoxr-", "xoxs-", "xapp-"),
        r"(?:xox[abcdeoprs]|xapp)-[A-Za-z0-9.%-]{15,}",
        ("xoxb-" + "1234567890-" * 2 + "aB3" * 8, "xoxe.xoxp-1-" + _B64 * 4),
    ),
    (
        "slack-webhook",
        ("hooks.slack.com",),
        r"(?i)hooks\.slack\.com(?:\\{0,8}/)(?:services|workflows|triggers)\\{0,8}/([A-Za-z0-9_/\\]{16,})",
        ("https://hooks.slack.com/services/T0000AAAA/B0000AAAA/" + "aB3dE6" * 4,),
    ),
    (
        "discord-webhook",
        ("webhooks",),
        r"(?i)webhooks\\{0,8}/\d{15,21}\\{0,8}/([\w-]{40,})",
        ("https://discord.com/api/webhooks/" + "123456789" * 2 + "/" + _B64 * 4,),
    ),
    (
        "teams-webhook",
        ("webhook.office.com",),
        r"(?i)webhook\.office\.com(?:\\{0,8}/)webhookb2\\{0,8}/([\w@/\\-]{40,})",
        (
            "https://shop.webhook.office.com/webhookb2/"
            + _UUID
            + "@"
            + _UUID
            + "/IncomingWebhook/"
            + _HEX * 4
            + "/"
            + _UUID,
        ),
    ),
    (
        "discord-bot",
        ("MTA", "MTE", "MTI", "MTM", "MTQ", "MTU"),
        r"MT[AEIMQU][w-z0-5][A-Za-z0-9]{19,24}\.[\w-]{6}\.[\w-]{27,}",
        ("MTAw" + "MTIz" * 5 + ".GaBcDe." + "aB3dE6_h-" * 4,),
    ),
    ("telegram", (":AA",), r"(?<=\d{8}):(AA[\w-]{30,40})(?![\w-])", ("123456789:AA" + "aB3dE6gH_1-" * 3,)),
    (
        "stripe",
        ("sk_live_", "rk_live_", "sk_test_", "rk_test_", "sk_prod_", "rk_prod_"),
        r"[rs]k_(?:live|test|prod)_[A-Za-z0-9]{16,}",
        ("sk_live_" + "4eC39Hq" * 4,),
    ),
    ("stripe-webhook", ("whsec_",), r"whsec_[A-Za-z0-9+/]{24,}={0,2}", ("whsec_" + "aB3dE6gH" * 4,)),
    ("square", ("EAAA",), r"(?<![+/])EAAA[\w-]{40,80}(?![\w/+=-])", ("EAAA" + _B64 * 3 + "aB3dE6gHi1jK",)),
    ("square", ("sq0atp-", "sq0csp-"), r"sq0(?:atp|csp)-[\w-]{20,}", ("sq0atp-" + _B64 + "aB3dE6",)),
    ("facebook", ("EAAC", "EAAM"), r"(?<![+/])EAA[CM][A-Za-z0-9]{100,}", ("EAAC" + _B64 * 7,)),
    (
        "flutterwave",
        ("FLWSECK-", "FLWSECK_TEST-"),
        r"FLWSECK(?:_TEST)?-[0-9a-hA-H]{12,}(?:-X)?",
        ("FLWSECK_TEST-" + _HEX * 4 + "-X",),
    ),
    ("easypost", ("EZAK", "EZTK"), r"EZ[AT]K[A-Za-z0-9]{54}", ("EZAK" + _B64 * 3 + "aB3dE6",)),
    (
        "duffel",
        ("duffel_test_", "duffel_live_"),
        r"duffel_(?:test|live)_[\w=-]{40,}",
        ("duffel_live_" + _B64 * 2 + "aB3dE6gHi1j",),
    ),
    ("shippo", ("shippo_live_", "shippo_test_"), r"shippo_(?:live|test)_[0-9a-fA-F]{40}", ("shippo_live_" + _HEX * 5,)),
    (
        "plaid",
        ("access-sandbox-", "access-development-", "access-production-"),
        r"access-(?:sandbox|development|production)-[0-9a-f-]{36}",
        ("access-production-" + _UUID,),
    ),
    ("twilio", ("SK",), r"SK[0-9a-f]{32}(?![A-Za-z0-9])", ("SK" + _HEX * 4,)),
    ("sendgrid", ("SG.",), r"SG\.[\w-]{16,32}\.[\w-]{32,64}", ("SG." + "aB3dE6gH1jK" * 2 + "." + "aB3dE6g" * 6 + "h",)),
    (
        "sendinblue",
        ("xkeysib-", "xsmtpsib-"),
        r"x(?:key|smtp)sib-[0-9a-f]{64}-[A-Za-z0-9]{16}",
        ("xkeysib-" + _HEX * 8 + "-" + _B64,),
    ),
    ("mailgun", ("key-",), r"key-[0-9a-f]{32}(?![A-Za-z0-9])", ("key-" + _HEX * 4,)),
    ("mailchimp", ("-us",), r"[0-9a-f]{32}-us\d{1,2}(?![A-Za-z0-9])", (_HEX * 4 + "-us12",)),
    ("mapbox", ("sk.eyJ",), r"sk\.eyJ[\w-]{20,}\.[\w-]{16,}", ("sk.eyJ" + _B64 * 3 + "." + _B64,)),
    (
        "maxmind",
        ("_mmk",),
        r"[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk(?![A-Za-z0-9])",
        ("aB3dE6_" + "aB3dE6gHi1jK2lM3nO4pQ5rS6tU7v" + "_mmk",),
    ),
    (
        "shopify",
        ("shpat_", "shpca_", "shpss_", "shppa_"),
        r"shp(?:at|ca|ss|pa)_[0-9a-fA-F]{32}",
        ("shpat_" + _HEX * 4,),
    ),
    ("airtable", ("pat",), r"pat[A-Za-z0-9]{14}\.[0-9a-f]{64}", ("patAbCd0123EfGh45." + _HEX * 8,)),
    ("dropbox", ("sl.",), r"sl\.[\w=-]{100,}", ("sl." + _B64 * 8,)),
    ("figma", ("figd_",), r"figd_[\w-]{36,}", ("figd_" + "aB3dE6_h-" * 5,)),
    ("linear", ("lin_api_",), r"lin_api_[A-Za-z0-9]{32,}", ("lin_api_" + "aB3dE6gH" * 5,)),
    ("notion", ("ntn_", "secret_"), r"(?:ntn|secret)_[A-Za-z0-9]{40,}", ("ntn_" + "aB3dE6gHi" * 5 + "j",)),
    ("contentful", ("CFPAT-",), r"CFPAT-[\w-]{40,}", ("CFPAT-" + "aB3dE6_h-" * 5,)),
    ("adobe", ("p8e-",), r"p8e-[A-Za-z0-9]{32}(?![A-Za-z0-9])", ("p8e-" + _B64 * 2,)),
    ("frameio", ("fio-u-",), r"fio-u-[\w=-]{60,}", ("fio-u-" + _B64 * 4,)),
    ("typeform", ("tfp_",), r"tfp_[\w.=-]{40,}", ("tfp_" + _B64 * 4,)),
    (
        "defined-networking",
        ("dnkey-",),
        r"dnkey-[\w=-]{26}-[\w=-]{40,}",
        ("dnkey-" + _B64 + "aB3dE6gHi1-" + _B64 * 3 + "aB3d",),
    ),
    ("grafana", ("glsa_",), r"glsa_[A-Za-z0-9]{32}_[0-9A-Fa-f]{8}", ("glsa_" + _B64 * 2 + "_" + _HEX,)),
    ("grafana", ("glc_",), r"glc_[A-Za-z0-9+/]{32,}={0,3}", ("glc_" + _B64 * 4,)),
    ("grafana", ("eyJrIjoi",), r"eyJrIjoi[A-Za-z0-9]{60,}={0,3}", ("eyJrIjoi" + _B64 * 5,)),
    ("sentry", ("sntrys_",), r"sntrys_[\w+/=]{40,}", ("sntrys_eyJpYXQiO" + _B64 * 4 + "_" + _B64 * 2 + "aB3dE6gHi1j",)),
    ("sentry", ("sntryu_",), r"sntryu_[0-9a-f]{64}", ("sntryu_" + _HEX * 8,)),
    ("newrelic", ("NRAK-", "NRJS-", "NRII-"), r"NR(?:AK|JS|II)-[A-Za-z0-9-]{19,}", ("NRAK-" + "ABCD2345" * 3 + "ABC",)),
    ("posthog", ("phx_",), r"phx_[A-Za-z0-9]{40,}", ("phx_" + _B64 * 3,)),
    (
        "jwt",
        (".eyJ",),
        r"eyJ[\w-]{8,8000}\.eyJ[\w-]{8,}(?:\.[\w-]*)?",
        ("eyJ" + _B64 * 2 + ".eyJ" + _B64 * 3 + "." + _B64 * 2,),
    ),
    ("jwt-base64", ("ZXlKaGJHY",), r"ZXlKaGJHY[A-Za-z0-9+/_-]{60,}={0,2}", ("ZXlKaGJHY" + _B64 * 6,)),
    (
        "pem-base64",
        ("LS0tLS1CRUdJTi",),
        r"LS0tLS1CRUdJTi(?:BSU0|BQUklWQVRF|BFQyBQ|BPUEVOU1NI|BFTkNSWVBU|BEU0Eg|BQR1AgUFJJ)[A-Za-z0-9+/]{40,}={0,2}",
        ("LS0tLS1CRUdJTiBSU0E" + _B64 * 6,),
    ),
)
