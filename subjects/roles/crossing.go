package roles

import "toolsearch/subjects"

// Crossing is a subject that passes from one account to the other.
type Crossing struct {
	Subject string
	From    string // the account that answers or publishes, and exports
	To      string // the account that asks or listens, and imports
	Stream  bool   // messages that flow by themselves; otherwise requests with one reply each
}

// Crossings lists what passes between the accounts, for one root. Each user's own permissions narrow it.
func Crossings(root subjects.Root) []Crossing {
	if root == "" {
		root = subjects.DefaultRoot
	}
	family := func(f subjects.Family) string { return string(root) + "." + string(f) + ".>" }
	return []Crossing{
		{Subject: family(subjects.FamilyRequest), From: Service, To: Clients},
		{Subject: family(subjects.FamilyStop), From: Service, To: Clients},
		{Subject: family(subjects.FamilyResult), From: Service, To: Clients, Stream: true},
		{Subject: family(subjects.FamilyHook), From: Clients, To: Service},
		// Large bodies, for users that may.
		{Subject: "$O.>", From: Service, To: Clients},
		{Subject: "$JS.API.STREAM.INFO.*", From: Service, To: Clients},
		{Subject: "$JS.API.STREAM.MSG.GET.*", From: Service, To: Clients},
	}
}
