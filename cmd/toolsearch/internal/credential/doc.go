// Package credential makes what a NATS server and its users need to tell who is who: the accounts and users of a server
// with passwords, and for a fleet the keys, the resolver's configuration and each user's signed credentials.
//
// What a role may do is not decided here; package roles does. Nothing here connects to a server.
//
//	conf, err := credential.Passwords(roles.Names{Tenant: "default", Session: "cli", Host: "tools-1"})
//
//	done, err := credential.Setup("fleet", credential.SetupOptions{})
//	key, err := credential.LoadKey(credential.KeyFile("fleet", roles.Runtime, false))
//	creds, err := key.Mint(credential.Grant{Tenant: "acme", Session: "desktop-1", Expires: time.Now().Add(12 * time.Hour)})
//
// # The folder of a fleet
//
//	fleet/resolver.conf           included by every server; holds no secret
//	fleet/keys/operator.nk        signs accounts; keep it offline
//	fleet/keys/account-*.nk       the accounts' own keys; keep them offline
//	fleet/keys/<role>.json        a scoped signing key; whoever mints credentials of that role needs this one alone
//	fleet/keys/<role>-bodies.json the same, with the tenant's bucket of large bodies
//
// # Invariants
//
//   - A signing key can only mint its role: what a user may do stands in the account, not in the user's token, which
//     carries nothing but the names.
//   - Secrets are written to files of mode 0600 in a folder of mode 0700, whole or not at all, and are in no error and
//     no report.
//   - Setup repeated keeps every key and signs the accounts anew.
//   - Names keep their case: Acme and acme are two tenants.
package credential
