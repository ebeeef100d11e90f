package roles

import "toolsearch/subjects"

// Crossing is a subject that passes from one account to the other.
type Crossing struct {
	Subject string
	From    string // the account that answers or publishes, and exports
	To      string // the account that asks or listens, and imports
	Stream  bool   // messages that flow by themselves; otherwise requests with one reply each
}

// Crossings lists what passes between the accounts, for one root. Each user's own permissions narrow it. bodies also lets
// the claim check's requests through, for users that have [Names.Bodies].
func Crossings(root subjects.Root, bodies bool) []Crossing {
	if root == "" {
		root = subjects.DefaultRoot
	}
	family := func(f subjects.Family) string { return string(root) + "." + string(f) + ".>" }
	out := []Crossing{
		{Subject: family(subjects.FamilyRequest), From: Service, To: Clients},
		{Subject: family(subjects.FamilyStop), From: Service, To: Clients},
		{Subject: family(subjects.FamilyResult), From: Service, To: Clients, Stream: true},
		{Subject: family(subjects.FamilyHook), From: Clients, To: Service},
		{Subject: family(subjects.FamilyUI), From: Service, To: Interfaces},
		{Subject: family(subjects.FamilyCard), From: Service, To: Interfaces, Stream: true},
	}
	if bodies {
		// The API whole or not at all: beside a part of it the server keeps the account's own, which answers first, that
		// this account has no JetStream.
		out = append(out, Crossing{Subject: "$O.>", From: Service, To: Clients}, Crossing{Subject: "$JS.API.>", From: Service, To: Clients})
	}
	return out
}
