//! Credentials of the stores and generators of External Secrets: the fields that refer to them.

use crate::packs::notation::{CONFIG_MAP, Dependency, Kind, SECRET, SERVICE_ACCOUNT};

/// Objects with the credentials of a store or generator: the paths to the references, each with a `name` and, in most
/// shapes, a `namespace`.
#[derive(Clone, Copy)]
pub(super) struct Credentials {
    secrets: &'static [&'static str],
    service_accounts: &'static [&'static str],
    config_maps: &'static [&'static str],
    /// Authorities, each in a Secret or a ConfigMap as `type` says.
    authorities: &'static [&'static str],
}

const NONE: Credentials = Credentials { secrets: &[], service_accounts: &[], config_maps: &[], authorities: &[] };

impl Credentials {
    const fn secrets(secrets: &'static [&'static str]) -> Self {
        Self { secrets, ..NONE }
    }

    const fn service_accounts(self, service_accounts: &'static [&'static str]) -> Self {
        Self { service_accounts, ..self }
    }

    const fn config_maps(self, config_maps: &'static [&'static str]) -> Self {
        Self { config_maps, ..self }
    }

    const fn authorities(self, authorities: &'static [&'static str]) -> Self {
        Self { authorities, ..self }
    }

    /// Returns the references that stand below a path.
    pub(super) fn dependencies(self, at: &str, refer: fn(Kind, &str) -> Dependency) -> Vec<Dependency> {
        let of = |kind, fields: &[&str]| fields.iter().map(|field| refer(kind, &format!("{at}.{field}"))).collect();
        let mut dependencies: Vec<Dependency> = of(SECRET, self.secrets);
        dependencies.extend(of(SERVICE_ACCOUNT, self.service_accounts));
        dependencies.extend(of(CONFIG_MAP, self.config_maps));
        for field in self.authorities {
            let at = format!("{at}.{field}");
            dependencies.extend([SECRET, CONFIG_MAP].map(|kind| refer(kind, &at).kind_at(format!("{at}.type"))));
        }
        dependencies
    }
}

const AWS: Credentials = Credentials::secrets(&[
    "secretRef.accessKeyIDSecretRef",
    "secretRef.secretAccessKeySecretRef",
    "secretRef.sessionTokenSecretRef",
])
.service_accounts(&["jwt.serviceAccountRef"]);

const BEYONDTRUST_WORKLOAD: Credentials = Credentials::secrets(&["auth.apikey.token"]).authorities(&["caProvider"]);

const GOOGLE: Credentials = Credentials::secrets(&[
    "secretRef.secretAccessKeySecretRef",
    "workloadIdentityFederation.awsSecurityCredentials.awsCredentialsSecretRef",
])
.service_accounts(&["workloadIdentity.serviceAccountRef", "workloadIdentityFederation.serviceAccountRef"])
.config_maps(&["workloadIdentityFederation.credConfig"]);

/// Credentials for another cluster's API server.
const KUBERNETES: Credentials =
    Credentials::secrets(&["auth.cert.clientCert", "auth.cert.clientKey", "auth.token.bearerToken", "authRef"])
        .service_accounts(&["auth.serviceAccount"])
        .authorities(&["server.caProvider"]);

const VAULT: Credentials = Credentials::secrets(&[
    "auth.appRole.roleRef",
    "auth.appRole.secretRef",
    "auth.cert.clientCert",
    "auth.cert.secretRef",
    "auth.gcp.secretRef.secretAccessKeySecretRef",
    "auth.iam.secretRef.accessKeyIDSecretRef",
    "auth.iam.secretRef.secretAccessKeySecretRef",
    "auth.iam.secretRef.sessionTokenSecretRef",
    "auth.jwt.secretRef",
    "auth.kubernetes.secretRef",
    "auth.ldap.secretRef",
    "auth.tokenSecretRef",
    "auth.userPass.secretRef",
    "tls.certSecretRef",
    "tls.keySecretRef",
])
.service_accounts(&[
    "auth.gcp.serviceAccountRef",
    "auth.gcp.workloadIdentity.serviceAccountRef",
    "auth.iam.jwt.serviceAccountRef",
    "auth.jwt.kubernetesServiceAccountToken.serviceAccountRef",
    "auth.kubernetes.serviceAccountRef",
])
.authorities(&["caProvider"]);

const WEBHOOK: Credentials =
    Credentials::secrets(&["auth.ntlm.passwordSecret", "auth.ntlm.usernameSecret", "secrets[*].secretRef"])
        .authorities(&["caProvider"]);

const YANDEX: Credentials = Credentials::secrets(&["auth.authorizedKeySecretRef", "caProvider.certSecretRef"]);

/// Providers of stores, and the credentials of each below `.spec.provider`.
pub(super) const PROVIDERS: [(&str, Credentials); 42] = [
    (
        "akeyless",
        Credentials::secrets(&[
            "authSecretRef.kubernetesAuth.secretRef",
            "authSecretRef.secretRef.accessID",
            "authSecretRef.secretRef.accessType",
            "authSecretRef.secretRef.accessTypeParam",
        ])
        .service_accounts(&["authSecretRef.kubernetesAuth.serviceAccountRef", "authSecretRef.serviceAccountRef"])
        .authorities(&["caProvider"]),
    ),
    ("aws.auth", AWS),
    (
        "azurekv",
        Credentials::secrets(&[
            "authSecretRef.clientCertificate",
            "authSecretRef.clientId",
            "authSecretRef.clientSecret",
            "authSecretRef.tenantId",
        ])
        .service_accounts(&["serviceAccountRef"]),
    ),
    ("barbican.auth", Credentials::secrets(&["password.secretRef", "username.secretRef"])),
    (
        "beyondtrust.auth",
        Credentials::secrets(&[
            "apiKey.secretRef",
            "certificate.secretRef",
            "certificateKey.secretRef",
            "clientId.secretRef",
            "clientSecret.secretRef",
        ]),
    ),
    ("beyondtrustworkloadcredentials", BEYONDTRUST_WORKLOAD),
    ("bitwardensecretsmanager", Credentials::secrets(&["auth.secretRef.credentials"]).authorities(&["caProvider"])),
    ("chef", Credentials::secrets(&["auth.secretRef.privateKeySecretRef"])),
    ("cloudrusm.auth.secretRef", Credentials::secrets(&["accessKeyIDSecretRef", "accessKeySecretSecretRef"])),
    (
        "conjur",
        Credentials::secrets(&[
            "auth.apikey.apiKeyRef",
            "auth.apikey.userRef",
            "auth.cert.clientCertRef",
            "auth.cert.clientKeyRef",
            "auth.jwt.secretRef",
        ])
        .service_accounts(&["auth.jwt.serviceAccountRef"])
        .authorities(&["caProvider"]),
    ),
    ("crd", KUBERNETES),
    ("delinea", Credentials::secrets(&["clientId.secretRef", "clientSecret.secretRef"])),
    (
        "doppler.auth",
        Credentials::secrets(&["secretRef.dopplerToken"]).service_accounts(&["oidcConfig.serviceAccountRef"]),
    ),
    ("dvls.auth.secretRef", Credentials::secrets(&["appId", "appSecret"])),
    ("fortanix", Credentials::secrets(&["apiKey.secretRef"])),
    ("gcpsm.auth", GOOGLE),
    ("github", Credentials::secrets(&["auth.privateKey"])),
    ("gitlab", Credentials::secrets(&["auth.SecretRef.accessToken"]).authorities(&["caProvider"])),
    ("ibm", Credentials::secrets(&["auth.secretRef.secretApiKeySecretRef"])),
    (
        "infisical",
        Credentials::secrets(&[
            "auth.awsAuthCredentials.identityId",
            "auth.azureAuthCredentials.identityId",
            "auth.azureAuthCredentials.resource",
            "auth.gcpIamAuthCredentials.identityId",
            "auth.gcpIamAuthCredentials.serviceAccountKeyFilePath",
            "auth.gcpIdTokenAuthCredentials.identityId",
            "auth.jwtAuthCredentials.identityId",
            "auth.jwtAuthCredentials.jwt",
            "auth.kubernetesAuthCredentials.identityId",
            "auth.kubernetesAuthCredentials.serviceAccountTokenPath",
            "auth.ldapAuthCredentials.identityId",
            "auth.ldapAuthCredentials.ldapPassword",
            "auth.ldapAuthCredentials.ldapUsername",
            "auth.ociAuthCredentials.fingerprint",
            "auth.ociAuthCredentials.identityId",
            "auth.ociAuthCredentials.privateKey",
            "auth.ociAuthCredentials.privateKeyPassphrase",
            "auth.ociAuthCredentials.region",
            "auth.ociAuthCredentials.tenancyId",
            "auth.ociAuthCredentials.userId",
            "auth.tokenAuthCredentials.accessToken",
            "auth.universalAuthCredentials.clientId",
            "auth.universalAuthCredentials.clientSecret",
        ])
        .authorities(&["caProvider"]),
    ),
    ("keepersecurity", Credentials::secrets(&["authRef"])),
    ("kubernetes", KUBERNETES),
    (
        "nebiusmysterybox",
        Credentials::secrets(&["auth.serviceAccountCredsSecretRef", "auth.tokenSecretRef", "caProvider.certSecretRef"]),
    ),
    ("ngrok", Credentials::secrets(&["auth.apiKey.secretRef"])),
    ("onboardbase.auth", Credentials::secrets(&["apiKeyRef", "passcodeRef"])),
    ("onepassword", Credentials::secrets(&["auth.secretRef.connectTokenSecretRef"])),
    ("onepasswordSDK", Credentials::secrets(&["auth.serviceAccountSecretRef"])),
    (
        "openBao",
        Credentials::secrets(&[
            "auth.appRole.roleRef",
            "auth.appRole.secretRef",
            "auth.tokenSecretRef",
            "auth.userPass.secretRef",
        ])
        .authorities(&["caProvider"]),
    ),
    (
        "oracle",
        Credentials::secrets(&["auth.secretRef.fingerprint", "auth.secretRef.privatekey"])
            .service_accounts(&["serviceAccountRef"]),
    ),
    (
        "ovh.auth",
        Credentials::secrets(&["mtls.certSecretRef", "mtls.keySecretRef", "token.tokenSecretRef"])
            .authorities(&["mtls.caProvider"]),
    ),
    (
        "passbolt",
        Credentials::secrets(&["auth.passwordSecretRef", "auth.privateKeySecretRef"]).authorities(&["caProvider"]),
    ),
    ("passworddepot", Credentials::secrets(&["auth.secretRef.credentials"])),
    ("previder", Credentials::secrets(&["auth.secretRef.accessToken"])),
    (
        "pulumi",
        Credentials::secrets(&["accessToken.secretRef", "auth.accessToken.secretRef"])
            .service_accounts(&["auth.oidcConfig.serviceAccountRef"]),
    ),
    ("scaleway", Credentials::secrets(&["accessKey.secretRef", "secretKey.secretRef"])),
    (
        "secretserver",
        Credentials::secrets(&["password.secretRef", "token.secretRef", "username.secretRef"])
            .authorities(&["caProvider"]),
    ),
    ("senhasegura", Credentials::secrets(&["auth.clientSecretSecretRef"])),
    ("vault", VAULT),
    ("volcengine.auth.secretRef", Credentials::secrets(&["accessKeyID", "secretAccessKey", "token"])),
    ("webhook", WEBHOOK),
    ("yandexcertificatemanager", YANDEX),
    ("yandexlockbox", YANDEX),
];

/// Generators of a namespace: kind, plural, and the credentials below a path.
pub(super) const GENERATORS: [(&str, &str, &str, Credentials); 17] = [
    (
        "ACRAccessToken",
        "acraccesstokens",
        ".spec.auth",
        Credentials::secrets(&["servicePrincipal.secretRef.clientId", "servicePrincipal.secretRef.clientSecret"])
            .service_accounts(&["workloadIdentity.serviceAccountRef"]),
    ),
    (
        "BeyondtrustWorkloadCredentialsDynamicSecret",
        "beyondtrustworkloadcredentialsdynamicsecrets",
        ".spec.provider",
        BEYONDTRUST_WORKLOAD,
    ),
    ("CloudsmithAccessToken", "cloudsmithaccesstokens", ".spec", NONE.service_accounts(&["serviceAccountRef"])),
    ("ECRAuthorizationToken", "ecrauthorizationtokens", ".spec.auth", AWS),
    ("Fake", "fakes", ".spec", NONE),
    ("GCRAccessToken", "gcraccesstokens", ".spec.auth", GOOGLE),
    ("GithubAccessToken", "githubaccesstokens", ".spec.auth", Credentials::secrets(&["privateKey.secretRef"])),
    ("GitlabDeployToken", "gitlabdeploytokens", ".spec.auth", Credentials::secrets(&["token.secretRef"])),
    ("Grafana", "grafanas", ".spec.auth", Credentials::secrets(&["basic.password", "token"])),
    ("MFA", "mfas", ".spec", Credentials::secrets(&["secret"])),
    ("Password", "passwords", ".spec", NONE),
    ("QuayAccessToken", "quayaccesstokens", ".spec", NONE.service_accounts(&["serviceAccountRef"])),
    ("SSHKey", "sshkeys", ".spec", NONE),
    ("STSSessionToken", "stssessiontokens", ".spec.auth", AWS),
    ("UUID", "uuids", ".spec", NONE),
    ("VaultDynamicSecret", "vaultdynamicsecrets", ".spec.provider", VAULT),
    ("Webhook", "webhooks", ".spec", WEBHOOK),
];
