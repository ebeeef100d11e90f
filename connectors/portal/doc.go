// Package portal speaks to the account-management service: the list of a user's linked accounts, the end of one, and a
// new name for one.
//
// It is not the tool gateway. The gateway runs tools and starts connections; here the owner of the accounts looks at
// them, with the service's checks of the organization's membership and its audit of each disconnect. So there is no way
// from here to the gateway: when the service is out of reach, a request fails and says so.
//
//	accounts, err := portal.New(portal.Options{Origin: origin, Tokens: tokens})
//	defer accounts.Close()
//	list, err := accounts.List(ctx, "acme", etag)            // list.NotModified: the etag still holds
//	ended, err := accounts.Disconnect(ctx, "acme", "ca_1")   // ended.AuditID
//
// # What holds
//
//   - A list is asked at most twice, a change once: its answer may be lost, and then nobody knows what became of it
//     ([KindUnclear]).
//   - A refusal passes the service's own code, message and audit id on.
//   - A token goes to the configured origin and nowhere else; no redirect is followed; no error holds it.
package portal
