package subjects

import (
	"fmt"
	"strings"
)

// Root is the first tokens of every subject. Two installations on one bus take two roots.
type Root string

// DefaultRoot is the root of the wire contract, version 1.
const DefaultRoot Root = "toolsearch.v1"

// Family is the token after the root. It stands at a fixed place so that one permission line fences one session in.
type Family string

// The families of subjects.
const (
	FamilyRequest Family = "req"
	FamilyStop    Family = "stop"
	FamilyResult  Family = "result"
	FamilyHook    Family = "hook"
	FamilyHost    Family = "host"
	FamilyJob     Family = "job"
	// FamilyUI is what a user's interface asks, and FamilyCard what it is shown. They are families of their own so that
	// a runtime's credentials, which open req, reach neither: a model's runtime can press no button and end no account.
	FamilyUI   Family = "ui"
	FamilyCard Family = "card"
)

// What stands in a template of subjects in place of the tokens that differ: a name for telemetry, which must have few.
const (
	anyTenant  = "{tenant}"
	anySession = "{session}"
	anyCall    = "{call}"
)

// Template is a subject of this family with {tenant}, {session} and the like in place of its tokens; last is the verb,
// the moment or the operation, and nothing for the other families. Telemetry names by it what has the same meaning.
func (r Root) Template(f Family, last string) string {
	switch f {
	case FamilyResult:
		return r.join(f, anyTenant, anySession, anyCall)
	case FamilyHost:
		return r.join(f, anyTenant, "{host}", last)
	case FamilyJob, FamilyStop:
		return r.join(f, anyTenant, anySession)
	}
	return r.join(f, anyTenant, anySession, last)
}

// Verb is the last token of a request's subject and the name of its endpoint.
type Verb string

// The request verbs.
const (
	VerbAssemble    Verb = "assemble"
	VerbSearch      Verb = "search"
	VerbDescribe    Verb = "describe"
	VerbCall        Verb = "call"
	VerbConnections Verb = "connections"
)

// The verbs of a user's interface, under [FamilyUI].
const (
	VerbAnswer     Verb = "answer"     // the user pressed a button of a card
	VerbOperation  Verb = "operation"  // how the session's operation stands
	VerbAccounts   Verb = "accounts"   // the user's linked accounts
	VerbDisconnect Verb = "disconnect" // end one of them
)

// Family is where a verb's requests are sent.
func (v Verb) Family() Family {
	switch v {
	case VerbAnswer, VerbOperation, VerbAccounts, VerbDisconnect:
		return FamilyUI
	}
	return FamilyRequest
}

// Moment is the last token of a hook's subject.
type Moment string

// The moments of a hook: before a tool runs, and after it has settled.
const (
	HookPre  Moment = "pre"
	HookPost Moment = "post"
)

// The operations of a tool host.
const (
	HostCall = "call"
	HostList = "list"
)

// Address is a subject taken apart. Which fields are set depends on Family; see [Root.Parse].
type Address struct {
	Family  Family
	Tenant  string
	Session string // the host, for FamilyHost
	Last    string // the verb, the call, the moment, the host's operation or the card's; empty for a session's stop and a job
}

// ErrSubject is wrapped by every error of [Root.Parse] and [Root.Validate].
var ErrSubject = fmt.Errorf("subjects: malformed subject")

// Validate reports whether the root consists of one or more tokens joined by dots.
func (r Root) Validate() error {
	for t := range strings.SplitSeq(string(r), ".") {
		if !ValidToken(t) {
			return fmt.Errorf("%w: root %q: each part must be 1 to %d of A-Z a-z 0-9 _ -", ErrSubject, string(r), MaxToken)
		}
	}
	return nil
}

// Request is toolsearch.v1.req.<tenant>.<session>.<verb>, and toolsearch.v1.ui.<tenant>.<session>.<verb> for a verb of a
// user's interface.
func (r Root) Request(tenant, session string, verb Verb) string {
	return r.join(verb.Family(), tenant, session, string(verb))
}

// Requests is toolsearch.v1.req.*.*.<verb>, or the same under ui, what a worker subscribes.
func (r Root) Requests(verb Verb) string { return r.join(verb.Family(), "*", "*", string(verb)) }

// Card is toolsearch.v1.card.<tenant>.<session>.<operation>, what an interface is shown of one operation.
func (r Root) Card(tenant, session, operation string) string {
	return r.join(FamilyCard, tenant, session, operation)
}

// SessionCards is toolsearch.v1.card.<tenant>.<session>.*, what a session's interface subscribes.
func (r Root) SessionCards(tenant, session string) string {
	return r.join(FamilyCard, tenant, session, "*")
}

// StopSession is toolsearch.v1.stop.<tenant>.<session>.
func (r Root) StopSession(tenant, session string) string { return r.join(FamilyStop, tenant, session) }

// StopCall is toolsearch.v1.stop.<tenant>.<session>.<call>.
func (r Root) StopCall(tenant, session, call string) string {
	return r.join(FamilyStop, tenant, session, call)
}

// Stops is toolsearch.v1.stop.>, every stop.
func (r Root) Stops() string { return r.join(FamilyStop, ">") }

// Result is toolsearch.v1.result.<tenant>.<session>.<call>.
func (r Root) Result(tenant, session, call string) string {
	return r.join(FamilyResult, tenant, session, call)
}

// SessionResults is toolsearch.v1.result.<tenant>.<session>.*, what a runtime subscribes.
func (r Root) SessionResults(tenant, session string) string {
	return r.join(FamilyResult, tenant, session, "*")
}

// Results is toolsearch.v1.result.>, every result.
func (r Root) Results() string { return r.join(FamilyResult, ">") }

// Hook is toolsearch.v1.hook.<tenant>.<session>.<pre|post>.
func (r Root) Hook(tenant, session string, m Moment) string {
	return r.join(FamilyHook, tenant, session, string(m))
}

// Host is toolsearch.v1.host.<tenant>.<host>.<call|list>.
func (r Root) Host(tenant, host, op string) string { return r.join(FamilyHost, tenant, host, op) }

// Job is toolsearch.v1.job.<tenant>.<session>.
func (r Root) Job(tenant, session string) string { return r.join(FamilyJob, tenant, session) }

// TenantJobs is toolsearch.v1.job.<tenant>.>, the jobs of one tenant.
func (r Root) TenantJobs(tenant string) string { return r.join(FamilyJob, tenant, ">") }

// Jobs is toolsearch.v1.job.>, every job.
func (r Root) Jobs() string { return r.join(FamilyJob, ">") }

func (r Root) join(f Family, rest ...string) string {
	return string(r) + "." + string(f) + "." + strings.Join(rest, ".")
}

// Parse takes a subject apart. It is the inverse of the builders above: a subject with an empty, wild or malformed
// token, of an unknown family, or with too few or too many tokens is an error that wraps [ErrSubject].
func (r Root) Parse(subject string) (Address, error) {
	rest, ok := strings.CutPrefix(subject, string(r)+".")
	if !ok {
		return Address{}, fmt.Errorf("%w: %q is not below %q", ErrSubject, subject, string(r))
	}
	tok := strings.Split(rest, ".")
	a := Address{Family: Family(tok[0])}
	want := 0
	switch a.Family {
	case FamilyRequest, FamilyResult, FamilyHook, FamilyHost, FamilyUI, FamilyCard:
		want = 4
	case FamilyJob:
		want = 3
	case FamilyStop:
		want = max(3, min(len(tok), 4))
	default:
		return Address{}, fmt.Errorf("%w: %q: unknown family %q", ErrSubject, subject, tok[0])
	}
	if len(tok) != want {
		return Address{}, fmt.Errorf("%w: %q has %d tokens after the root, want %d", ErrSubject, subject, len(tok), want)
	}
	for _, t := range tok[1:] {
		if !ValidToken(t) {
			return Address{}, fmt.Errorf("%w: %q: token %q must be 1 to %d of A-Z a-z 0-9 _ -", ErrSubject, subject, t, MaxToken)
		}
	}
	a.Tenant, a.Session = tok[1], tok[2]
	if want == 4 {
		a.Last = tok[3]
	}
	return a, nil
}
