//! The built-in rules, one for each format. If two rules match at the same place, the earlier one names the
//! finding.

use super::rules::{BuiltIn, Reach};
use super::shape::{any, bare_value, quoted_value, random, value};
use Reach::{Begins, Line, Text};

/// The name of the rule for runs of hex.
pub(super) const HEX: &str = "hex";
/// The name of the rule for runs of base64.
pub(super) const BASE64: &str = "base64";

/// The names of all rules, in the order of the table.
pub fn names() -> impl Iterator<Item = &'static str> {
    let generic = [HEX, BASE64];
    TABLE.iter().map(|rule| rule.id).chain(generic)
}

const fn rule(
    id: &'static str,
    reach: Reach,
    keywords: &'static [&'static str],
    pattern: &'static str,
    check: fn(&str) -> bool,
) -> BuiltIn {
    BuiltIn {
        id,
        keywords,
        reach,
        pattern,
        check,
    }
}

/// What a line has before a password.
const PASSWORDS: &[&str] = &[
    "password",
    "passwd",
    "pwd",
    "passphrase",
    "pass=",
    "pass:",
    "pass ",
    "pass\"",
    "pass'",
];

/// The pattern of a labelled value in quotes.
macro_rules! quoted {
    ($name:literal, $least:literal) => {
        concat!(
            r#"(?i)(?:"#,
            $name,
            r#")\\{0,3}["'`]?\s{0,4}(?::=|[:=]|=>)\s{0,4}\\{0,3}(?:"(?P<s>[^"\r\n\\]{"#,
            $least,
            r#",})|'(?P<t>[^'\r\n\\]{"#,
            $least,
            r#",}))\\{0,3}["']"#
        )
    };
}

/// The pattern of a labelled value, used by the rules for labels.
macro_rules! label {
    ($name:literal, $least:literal) => {
        concat!(
            r#"(?i)(?:"#,
            $name,
            r#")["'`]?\s{0,4}(?::=|[:=]|=>)\s{0,4}(?:bearer\s)?["'`]?(?P<s>[A-Za-z0-9_\-.+/~]{"#,
            $least,
            r#",}={0,2})"#
        )
    };
}

#[rustfmt::skip]
pub(super) static TABLE: &[BuiltIn] = &[
    // Keys as blocks of text. A block that is cut off ends where its base64 ends.
    rule("private-key", Text, &["private key"],
        r"-----BEGIN[ A-Z0-9]{0,40}PRIVATE KEY(?: BLOCK)?-----(?:(?:[A-Za-z0-9+/=\s\\:,.()]|-[A-Za-z0-9])*-----END[ A-Z0-9]{0,40}PRIVATE KEY(?: BLOCK)?-----|(?:(?:\s|\\[nr])*[A-Za-z0-9+/=]{16,})*)", any),
    rule("putty-private-key", Text, &["private-lines:"], r"(?i)private-lines:\s?\d{1,4}\s+(?P<s>[A-Za-z0-9+/=\s]{40,})", any),
    rule("age-secret-key", Begins, &["AGE-SECRET-KEY-1"], r"AGE-SECRET-KEY-1[0-9A-Z]{50,}", any),

    // Cloud.
    rule("aws-access-key-id", Begins, &["AKIA", "ASIA", "ABIA", "ACCA"], r"A[KSBC][IC]A[A-Z0-9]{16,}", any),
    rule("aws-secret-access-key", Line, &["aws"],
        r#"(?i)aws[a-z_\- ]{0,20}(?:secret|private|sk)[a-z_\- ]{0,20}["'`]?\s{0,4}(?::=|[:=]|=>)\s{0,4}["'`]?(?P<s>[A-Za-z0-9/+]{40})"#, any),
    rule("aws-bedrock-key", Begins, &["ABSK"], r"ABSK[A-Za-z0-9+/]{100,}={0,2}", any),
    rule("google-api-key", Begins, &["AIza"], r"AIza[0-9A-Za-z_-]{35,}", any),
    rule("google-oauth-secret", Begins, &["GOCSPX-"], r"GOCSPX-[A-Za-z0-9_-]{28,}", any),
    rule("google-oauth-token", Begins, &["ya29."], r"ya29\.[A-Za-z0-9_-]{20,}", any),
    rule("google-refresh-token", Begins, &["1//0"], r"1//0[A-Za-z0-9_-]{40,}", any),
    rule("azure-account-key", Line, &["accountkey", "sharedaccesskey"], r"(?i)(?:account|sharedaccess)key\s{0,2}=\s{0,2}(?P<s>[A-Za-z0-9+/]{40,}={0,2})", any),
    rule("azure-client-secret", Line, &["Q~"], r"(?P<s>[A-Za-z0-9_~.]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34})", any),
    rule("azure-sas", Line, &["sig="], r"[?&;]sig=(?P<s>[A-Za-z0-9%+/_-]{40,}={0,2})", any),
    rule("digitalocean-token", Begins, &["dop_v1_", "doo_v1_", "dor_v1_"], r"do[opr]_v1_[a-f0-9]{64,}", any),
    rule("alibaba-access-key", Begins, &["LTAI"], r"LTAI[A-Za-z0-9]{12,30}", any),
    rule("tencent-secret-id", Begins, &["AKID"], r"AKID[A-Za-z0-9]{32,}", any),
    rule("heroku-key", Begins, &["HRKU-"], r"HRKU-[A-Za-z0-9_-]{36,}", any),
    rule("heroku-key", Line, &["heroku"],
        r#"(?i)heroku[a-z_\- ]{0,24}["'`]?\s{0,4}[:=]\s{0,4}["'`]?(?P<s>[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})"#, any),
    rule("cloudflare-token", Line, &["cloudflare", "cf_api"],
        r#"(?i)(?:cloudflare|cf_api)[a-z_\- ]{0,24}["'`]?\s{0,4}(?::=|[:=]|=>)\s{0,4}["'`]?(?P<s>[A-Za-z0-9_-]{37,40})"#, random),
    rule("cloudflare-origin-key", Begins, &["v1.0-"], r"v1\.0-[a-f0-9]{24}-[a-f0-9]{146,}", any),
    rule("vault-token", Begins, &["hvs.", "hvb.", "hvr."], r"hv[sbr]\.[A-Za-z0-9_-]{24,}", any),
    rule("terraform-token", Line, &[".atlasv1."], r"(?P<s>[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,})", any),
    rule("pulumi-token", Begins, &["pul-"], r"pul-[a-f0-9]{40,}", any),
    rule("databricks-token", Begins, &["dapi"], r"dapi[a-f0-9]{32}(?:-[0-9])?", any),
    rule("fly-token", Begins, &["fo1_", "FlyV1 "], r"(?:fo1_[A-Za-z0-9_-]{40,}|FlyV1 fm[0-9][a-z]?_[A-Za-z0-9+/=,_-]{60,})", any),
    rule("netlify-token", Begins, &["nfp_"], r"nfp_[A-Za-z0-9]{36,}", any),
    rule("supabase-token", Begins, &["sbp_", "sb_secret_"], r"sbp_[a-f0-9]{40,}|sb_secret_[A-Za-z0-9_-]{31,}", any),
    rule("planetscale-token", Begins, &["pscale_"], r"pscale_(?:tkn|pw|oauth)_[A-Za-z0-9_.=-]{32,}", any),
    rule("doppler-token", Begins, &["dp.pt.", "dp.st.", "dp.ct.", "dp.sa.", "dp.scim.", "dp.audit."], r"dp\.(?:pt|st|ct|sa|scim|audit)\.(?:[a-z0-9_-]{2,35}\.)?[A-Za-z0-9]{40,}", any),
    rule("tailscale-key", Begins, &["tskey-"], r"tskey-[a-z]{2,12}-[A-Za-z0-9]{8,}-[A-Za-z0-9]{16,}", any),
    rule("vercel-token", Begins, &["vercel_blob_rw_", "vck_"], r"(?:vercel_blob_rw_[A-Za-z0-9]{16,}_[A-Za-z0-9]{24,}|vck_[A-Za-z0-9]{40,})", any),

    // Version control, packages, continuous integration.
    rule("github-token", Begins, &["ghp_", "gho_", "ghu_", "ghs_", "ghr_"], r"gh[pousr]_[A-Za-z0-9]{20,}", any),
    rule("github-fine-grained-token", Begins, &["github_pat_"], r"github_pat_[A-Za-z0-9_]{40,}", any),
    rule("gitlab-token", Begins, &["glpat-", "gldt-", "glrt-", "glptt-", "glcbt-", "glft-", "glimt-", "glagent-", "gloas-", "glsoat-", "glffct-"],
        r"gl(?:pat|dt|rt|ptt|cbt|ft|imt|agent|oas|soat|ffct)-[A-Za-z0-9_.-]{20,}", any),
    rule("bitbucket-token", Begins, &["ATBB", "ATCTT3"], r"(?:ATBB[A-Za-z0-9]{24,}|ATCTT3[A-Za-z0-9_=-]{60,})", any),
    rule("atlassian-token", Begins, &["ATATT3"], r"ATATT3[A-Za-z0-9_=-]{60,}", any),
    rule("npm-token", Begins, &["npm_"], r"npm_[A-Za-z0-9]{36,}", any),
    rule("npm-auth", Line, &["_authtoken", "_auth="], r"(?i)_auth(?:token)?\s{0,2}=\s{0,2}(?P<s>[A-Za-z0-9_+/=-]{16,})", value),
    rule("pypi-token", Begins, &["pypi-"], r"pypi-AgE[A-Za-z0-9_-]{50,}", any),
    rule("rubygems-key", Begins, &["rubygems_"], r"rubygems_[a-f0-9]{48,}", any),
    rule("crates-io-token", Begins, &["cio"], r"cio[A-Za-z0-9]{32,}", any),
    rule("docker-token", Begins, &["dckr_pat_", "dckr_oat_"], r"dckr_[po]at_[A-Za-z0-9_-]{27,}", any),
    rule("nuget-key", Begins, &["oy2"], r"oy2[a-z0-9]{43,}", any),
    rule("clojars-token", Begins, &["CLOJARS_"], r"CLOJARS_[a-z0-9]{60,}", any),
    rule("artifactory-token", Begins, &["AKCp"], r"AKCp[A-Za-z0-9]{60,}", any),
    rule("circleci-token", Begins, &["CCIPAT_", "CCIPRJ_"], r"CCIP(?:AT|RJ)_[A-Za-z0-9_]{40,}", any),
    rule("buildkite-token", Begins, &["bkua_"], r"bkua_[a-z0-9]{40,}", any),

    // Language models.
    rule("anthropic-key", Begins, &["sk-ant-"], r"sk-ant-[A-Za-z0-9_-]{20,}", any),
    rule("openrouter-key", Begins, &["sk-or-v1-"], r"sk-or-v1-[a-f0-9]{40,}", any),
    rule("openai-key", Begins, &["sk-"], r"sk-[A-Za-z0-9_-]{16,}", value),
    rule("huggingface-token", Begins, &["hf_", "api_org_"], r"(?:hf|api_org)_[A-Za-z0-9]{30,}", any),
    rule("groq-key", Begins, &["gsk_"], r"gsk_[A-Za-z0-9]{48,}", any),
    rule("replicate-token", Begins, &["r8_"], r"r8_[A-Za-z0-9]{37,}", any),
    rule("perplexity-key", Begins, &["pplx-"], r"pplx-[A-Za-z0-9]{40,}", any),
    rule("xai-key", Begins, &["xai-"], r"xai-[A-Za-z0-9]{60,}", any),
    rule("nvidia-key", Begins, &["nvapi-"], r"nvapi-[A-Za-z0-9_-]{60,}", any),
    rule("langsmith-key", Begins, &["lsv2_"], r"lsv2_(?:pt|sk)_[a-f0-9]{32}_[a-f0-9]{10}", any),
    rule("pinecone-key", Begins, &["pcsk_"], r"pcsk_[A-Za-z0-9_]{40,}", any),
    rule("tavily-key", Begins, &["tvly-"], r"tvly-[A-Za-z0-9-]{24,}", random),
    rule("fireworks-key", Begins, &["fw_"], r"fw_[A-Za-z0-9]{22,}", random),

    // Payment and shops.
    rule("stripe-key", Begins, &["sk_live_", "sk_test_", "sk_prod_", "rk_live_", "rk_test_", "rk_prod_"], r"[sr]k_(?:live|test|prod)_[A-Za-z0-9]{10,}", any),
    rule("stripe-webhook-secret", Begins, &["whsec_"], r"whsec_[A-Za-z0-9+/=]{24,}", any),
    rule("square-token", Begins, &["EAAA", "sq0atp-", "sq0csp-", "sq0idp-"], r"(?:EAAA[A-Za-z0-9_-]{60,}|sq0(?:atp|csp|idp)-[A-Za-z0-9_-]{22,})", any),
    rule("braintree-token", Begins, &["access_token$"], r"access_token\$(?:production|sandbox)\$[a-z0-9]{16}\$[a-f0-9]{32}", any),
    rule("shopify-token", Begins, &["shpat_", "shpca_", "shppa_", "shpss_"], r"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32,}", any),
    rule("razorpay-key", Begins, &["rzp_live_", "rzp_test_"], r"rzp_(?:live|test)_[A-Za-z0-9]{14,}", any),
    rule("plaid-token", Begins, &["access-sandbox-", "access-development-", "access-production-"], r"access-(?:sandbox|development|production)-[0-9a-f-]{36}", any),
    rule("flutterwave-key", Begins, &["FLWSECK"], r"FLWSECK(?:_TEST)?-[A-Za-z0-9]{12,}(?:-X)?", any),

    // Chat, mail, telephone.
    rule("slack-token", Begins, &["xoxb-", "xoxp-", "xoxa-", "xoxe-", "xoxe.", "xoxr-", "xoxs-", "xoxo-", "xoxc-", "xoxd-"], r"xox[abcdeoprs][.-][A-Za-z0-9%._-]{10,}", any),
    rule("slack-app-token", Begins, &["xapp-"], r"xapp-[0-9]-[A-Za-z0-9-]{20,}", any),
    rule("slack-webhook", Line, &["hooks.slack.com"], r"hooks\.slack\.com/(?:services|workflows|triggers)/(?P<s>[A-Za-z0-9+/_]{30,})", any),
    rule("discord-token", Line, &["discord", "bot", "token"], r"(?-u:\b)(?P<s>[MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,})", any),
    rule("discord-webhook", Line, &["api/webhooks/"], r"/api/webhooks/[0-9]{15,22}/(?P<s>[A-Za-z0-9_-]{50,})", any),
    rule("telegram-token", Line, &[":AA"], r"(?-u:\b)(?P<s>[0-9]{8,10}:AA[A-Za-z0-9_-]{33})", any),
    rule("teams-webhook", Line, &["webhook.office.com", "logic.azure.com"], r"(?:webhook\.office\.com/webhookb2|logic\.azure\.com[^\s]*workflows)/(?P<s>[A-Za-z0-9@/_-]{60,})", any),
    rule("twilio-key", Begins, &["SK"], r"SK[0-9a-f]{32}", any),
    rule("sendgrid-key", Begins, &["SG."], r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{30,}", any),
    rule("mailgun-key", Begins, &["key-"], r"key-[0-9a-f]{32}", any),
    rule("mailchimp-key", Line, &["-us"], r"(?-u:\b)(?P<s>[0-9a-f]{32}-us[0-9]{1,2})", any),
    rule("brevo-key", Begins, &["xkeysib-", "xsmtpsib-"], r"x(?:key|smtp)sib-[a-f0-9]{64}-[A-Za-z0-9]{16}", any),
    rule("resend-key", Begins, &["re_"], r"re_[A-Za-z0-9]{8}_[A-Za-z0-9]{22,}", any),
    rule("facebook-token", Begins, &["EAA"], r"EAA[A-Z][A-Za-z0-9]{80,}", any),
    rule("twitter-bearer", Begins, &["AAAAAAAAAAAAAAAAAAAA"], r"A{20,24}[A-Za-z0-9%]{60,}", random),

    // Tools of a team.
    rule("linear-key", Begins, &["lin_api_", "lin_oauth_"], r"lin_(?:api|oauth)_[A-Za-z0-9]{32,}", any),
    rule("notion-token", Begins, &["ntn_", "secret_"], r"(?:ntn_[A-Za-z0-9]{40,}|secret_[A-Za-z0-9]{43})", any),
    rule("airtable-token", Begins, &["pat"], r"pat[A-Za-z0-9]{14}\.[a-f0-9]{64}", any),
    rule("figma-token", Begins, &["figd_"], r"figd_[A-Za-z0-9_-]{36,}", any),
    rule("newrelic-key", Begins, &["NRAK-", "NRII-", "NRJS-"], r"NR(?:AK|II|JS)-[A-Za-z0-9-]{19,}", any),
    rule("grafana-token", Begins, &["glc_", "glsa_"], r"(?:glc_[A-Za-z0-9+/=]{32,}|glsa_[A-Za-z0-9]{32}_[a-f0-9]{8})", any),
    rule("sentry-token", Begins, &["sntrys_", "sntryu_"], r"sntry(?:s_eyJ[A-Za-z0-9+/=_-]{40,}|u_[a-f0-9]{64})", any),
    rule("posthog-key", Begins, &["phx_"], r"phx_[A-Za-z0-9]{40,}", any),
    rule("postman-key", Begins, &["PMAK-"], r"PMAK-[a-f0-9]{24}-[a-f0-9]{34}", any),
    rule("dynatrace-token", Begins, &["dt0c01."], r"dt0c01\.[A-Z0-9]{24}\.[A-Z0-9]{64}", any),
    rule("onepassword-token", Begins, &["ops_eyJ"], r"ops_eyJ[A-Za-z0-9+/=_-]{100,}", any),
    rule("contentful-token", Begins, &["CFPAT-"], r"CFPAT-[A-Za-z0-9_-]{43,}", any),
    rule("asana-token", Line, &["asana"], r#"(?i)asana[a-z_\- ]{0,24}["'`]?\s{0,4}[:=]\s{0,4}["'`]?(?P<s>[0-9]/[0-9]{10,}(?:/[0-9]{10,})?:[a-f0-9]{32})"#, any),
    rule("datadog-key", Line, &["datadog", "dd_api", "dd_app"], r#"(?i)(?:datadog|dd_a)[a-z_\- ]{0,24}["'`]?\s{0,4}[:=]\s{0,4}["'`]?(?P<s>[a-f0-9]{32}(?:[a-f0-9]{8})?)"#, any),
    rule("wandb-key", Line, &["wandb"], r#"(?i)wandb[a-z_\- ]{0,24}["'`]?\s{0,4}[:=]\s{0,4}["'`]?(?P<s>[a-f0-9]{40})"#, any),

    // Tokens, headers, addresses, labels.
    rule("jwt", Line, &["eyJ"], r"(?-u:\b)(?P<s>eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]{8,}){0,2})", any),
    rule("database-url", Line, &["postgres", "mysql", "mariadb", "mongodb", "redis", "amqp", "mssql", "sqlserver", "clickhouse", "cockroachdb", "oracle", "kafka", "nats", "ldap"],
        r#"(?i)(?:postgres(?:ql)?|mysql2?|mariadb|mongodb|rediss?|amqps?|mssql|sqlserver|clickhouse|cockroachdb|oracle|kafka|nats|ldaps?)(?:\+[a-z0-9_]{1,16})?://[^\s:@/"'`<>]*:(?P<s>[^\s@"'`<>]+)@[a-z0-9\[_.%-]"#, url_password),
    rule("url-password", Line, &["://"], r#"(?i)[a-z][a-z0-9+.-]{1,20}://[^\s:@/"'`<>]*:(?P<s>[^\s@/"'`<>]{3,})@[a-z0-9\[_.%-]"#, url_password),
    rule("connection-password", Line, &["password=", "pwd=", "@tcp(", "@unix(", "jdbc:oracle"],
        r#"(?i)[;?&]\s{0,2}(?:password|pwd)\s{0,2}=\s{0,2}(?P<s>[^\s;&"'`\\]{3,})|[a-z0-9_.-]+:(?P<t>[^\s:@"'`]{3,})@(?:tcp|unix)\(|jdbc:oracle:[a-z]{1,8}:[^\s/@:]+/(?P<u>[^\s@"'`]{3,})@"#, url_password),
    rule("basic-authorization", Line, &["basic "], r#"(?i)authorization["'`]?\s{0,4}[:=]\s{0,4}["'`]?basic\s{1,4}(?P<s>[A-Za-z0-9+/]{8,}={0,2})"#, any),
    rule("bearer-authorization", Line, &["authorization"], r#"(?i)authorization["'`]?\s{0,4}[:=]\s{0,4}["'`]?(?:bearer|token|api[_-]?key)\s{1,4}(?P<s>[A-Za-z0-9_\-.~+/]{20,}={0,2})"#, any),
    rule("bearer", Line, &["bearer"], r"(?i)(?-u:\b)bearer\s{1,4}(?P<s>[A-Za-z0-9_\-.]{20,})", value),
    rule("api-key", Line, &["apikey", "api_key", "api-key", "api key"], label!("api[_ -]?key", "16"), value),
    rule("token", Line, &["token"], label!("token", "20"), value),
    rule("secret", Line, &["secret", "private_key", "access_key", "signing_key", "encryption_key", "auth_key"],
        label!("secret(?:[_-]?(?:access[_-]?)?key)?|private[_-]?key|access[_-]?key|signing[_-]?key|encryption[_-]?key|auth[_-]?key", "16"), random),
    rule("quoted-secret", Line, &["secret", "private_key", "access_key", "signing_key", "encryption_key", "auth_key"],
        quoted!("secret(?:[_-]?(?:access[_-]?)?key)?|private[_-]?key|access[_-]?key|signing[_-]?key|encryption[_-]?key|auth[_-]?key", "8"), bare_value),
    rule("quoted-password", Line, PASSWORDS, quoted!("password|passwd|pwd|passphrase|(?-u:\\b|_)pass", "4"), quoted_value),
    rule("password", Line, PASSWORDS,
        r#"(?i)(?:password|passwd|pwd|passphrase|(?-u:\b|_)pass)\\{0,3}["'`]?\s{0,2}(?::=|[:=])\s{0,2}(?P<s>[^\s"'`,;&|\\]{8,})"#, bare_value),
    rule("password", Line, &["--password ", "<password>"],
        r#"(?i)--password\s{1,4}["'`]?(?P<s>[^\s"'`,;&|\\]{8,})|<password>(?P<t>[^<\s]{8,})<"#, bare_value),
    rule("netrc", Text, &["machine", "default"],
        r#"(?i)(?-u:\b)(?:machine(?:\s|\\[nrt]){1,16}[^\s\\]+|default)(?:(?:\s|\\[nrt]){1,16}(?:login|account)(?:\s|\\[nrt]){1,16}[^\s\\]+){1,2}(?:\s|\\[nrt]){1,16}password(?:\s|\\[nrt]){1,16}(?:["'](?P<s>[^"'\r\n\\]{3,})["']|(?P<t>[^\s\\"']{3,}))"#, url_password),
    rule("curl-user", Text, &["curl"],
        r#"(?i)(?-u:\b)curl(?:\s(?:[^\n\\|]|\\[^nr])*?)?\s(?:-[a-z]{0,8}u\s{0,4}|--(?:proxy-)?user[\s=]{1,4})\\{0,3}["'`]?[^\s:"'`\\]+:(?P<s>[^\s"'`\\]{3,})"#, login_password),
];

/// Accepts a password of a user, and no number of a group or of a port.
fn login_password(text: &str) -> bool {
    url_password(text) && !text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Accepts a password in an address: anything but a placeholder or a word that documentation uses there.
fn url_password(text: &str) -> bool {
    const WORDS: &[&str] = &["password", "pass", "pwd", "port", "secret", "user"];
    let filled_in = ["<", "{", "${", "$(", "%s", "%("];
    let is_variable = text.strip_prefix('$').is_some_and(|name| {
        name.bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    });
    let drawn = !is_variable
        && !filled_in.iter().any(|start| text.starts_with(start))
        && !text.contains("${");
    drawn
        && !WORDS.contains(&text.to_ascii_lowercase().as_str())
        && !text.bytes().all(|byte| b"xX*.".contains(&byte))
}
