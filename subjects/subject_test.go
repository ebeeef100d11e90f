package subjects_test

import (
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"
	"toolsearch/subjects"
)

func token() *rapid.Generator[string] { return rapid.StringMatching(`[A-Za-z0-9_-]{1,64}`) }

// build is every builder of one subject, by its family and shape.
var build = map[string]func(r subjects.Root, a subjects.Address) string{
	"req": func(r subjects.Root, a subjects.Address) string {
		return r.Request(a.Tenant, a.Session, subjects.Verb(a.Last))
	},
	"stop session": func(r subjects.Root, a subjects.Address) string { return r.StopSession(a.Tenant, a.Session) },
	"stop call":    func(r subjects.Root, a subjects.Address) string { return r.StopCall(a.Tenant, a.Session, a.Last) },
	"result":       func(r subjects.Root, a subjects.Address) string { return r.Result(a.Tenant, a.Session, a.Last) },
	"hook": func(r subjects.Root, a subjects.Address) string {
		return r.Hook(a.Tenant, a.Session, subjects.Moment(a.Last))
	},
	"host": func(r subjects.Root, a subjects.Address) string { return r.Host(a.Tenant, a.Session, a.Last) },
	"ui": func(r subjects.Root, a subjects.Address) string {
		return strings.Replace(r.Request(a.Tenant, a.Session, subjects.VerbAnswer), "."+string(subjects.VerbAnswer), "."+a.Last, 1)
	},
	"card": func(r subjects.Root, a subjects.Address) string { return r.Card(a.Tenant, a.Session, a.Last) },
	"job":  func(r subjects.Root, a subjects.Address) string { return r.Job(a.Tenant, a.Session) },
}

func TestFormatAndParseAreInverse(t *testing.T) {
	t.Parallel()
	for shape, format := range build {
		t.Run(shape, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				root := subjects.Root(strings.Join(rapid.SliceOfN(token(), 1, 3).Draw(t, "root"), "."))
				family, _, _ := strings.Cut(shape, " ")
				want := subjects.Address{Family: subjects.Family(family), Tenant: token().Draw(t, "tenant"), Session: token().Draw(t, "session")}
				if shape != "stop session" && shape != "job" {
					want.Last = token().Draw(t, "last")
				}
				subject := format(root, want)
				got, err := root.Parse(subject)
				if err != nil || got != want {
					t.Fatalf("Parse(%q) = %+v, %v; want %+v", subject, got, err, want)
				}
				// And the other way: what parses is built again to the same text.
				if again := format(root, got); again != subject {
					t.Fatalf("built again: %q, want %q", again, subject)
				}
			})
		})
	}
}

func TestSubjectsAreThoseOfTheContract(t *testing.T) {
	t.Parallel()
	const r = subjects.DefaultRoot
	for got, want := range map[string]string{
		r.Request("acme", "s1", subjects.VerbSearch):       "toolsearch.v1.req.acme.s1.search",
		r.Requests(subjects.VerbCall):                      "toolsearch.v1.req.*.*.call",
		r.StopSession("acme", "s1"):                        "toolsearch.v1.stop.acme.s1",
		r.StopCall("acme", "s1", "c"):                      "toolsearch.v1.stop.acme.s1.c",
		r.Stops():                                          "toolsearch.v1.stop.>",
		r.Result("acme", "s1", "c"):                        "toolsearch.v1.result.acme.s1.c",
		r.SessionResults("acme", "s1"):                     "toolsearch.v1.result.acme.s1.*",
		r.Results():                                        "toolsearch.v1.result.>",
		r.Hook("acme", "s1", subjects.HookPre):             "toolsearch.v1.hook.acme.s1.pre",
		r.Host("acme", "mcp-1", subjects.HostCall):         "toolsearch.v1.host.acme.mcp-1.call",
		r.Request("acme", "s1", subjects.VerbDisconnect):   "toolsearch.v1.ui.acme.s1.disconnect",
		r.Requests(subjects.VerbAnswer):                    "toolsearch.v1.ui.*.*.answer",
		r.Card("acme", "s1", "turn-7"):                     "toolsearch.v1.card.acme.s1.turn-7",
		r.SessionCards("acme", "s1"):                       "toolsearch.v1.card.acme.s1.*",
		r.Job("acme", "s1"):                                "toolsearch.v1.job.acme.s1",
		r.TenantJobs("acme"):                               "toolsearch.v1.job.acme.>",
		r.Jobs():                                           "toolsearch.v1.job.>",
		subjects.InboxPrefix("acme", "ada@example.com"):    "_INBOX_acme.b64-YWRhQGV4YW1wbGUuY29t",
		subjects.BodyBucket("acme"):                        "TOOLSEARCH_BODIES_acme",
		subjects.Root("a.b").Request("t", "s", "assemble"): "a.b.req.t.s.assemble",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for name, subject := range map[string]string{
		"another root":           "other.v1.req.acme.s1.search",
		"the root alone":         "toolsearch.v1",
		"nothing":                "",
		"an unknown family":      "toolsearch.v1.reqs.acme.s1.search",
		"too few tokens":         "toolsearch.v1.req.acme.s1",
		"too many tokens":        "toolsearch.v1.req.acme.s1.search.x",
		"an empty tenant":        "toolsearch.v1.req..s1.search",
		"an empty session":       "toolsearch.v1.req.acme..search",
		"an empty last token":    "toolsearch.v1.req.acme.s1.",
		"a wild session":         "toolsearch.v1.req.acme.*.search",
		"a full wildcard":        "toolsearch.v1.req.acme.>",
		"a wild last token":      "toolsearch.v1.result.acme.s1.*",
		"a foreign letter":       "toolsearch.v1.req.acmé.s1.search",
		"a token that is long":   "toolsearch.v1.req.acme." + strings.Repeat("s", 65) + ".search",
		"a stop with much after": "toolsearch.v1.stop.acme.s1.c.d",
		"a stop with too little": "toolsearch.v1.stop.acme",
		"a job with a call":      "toolsearch.v1.job.acme.s1.c",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, err := subjects.DefaultRoot.Parse(subject)
			if !errors.Is(err, subjects.ErrSubject) {
				t.Errorf("Parse(%q) = %+v, %v; want ErrSubject", subject, a, err)
			}
		})
	}
}

// A prefix of one session must never cover another's inbox, whatever underscores the ids hold.
func TestInboxPrefixesDoNotOverlap(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.StringMatching(`[ab_]{1,4}`)
		a1, a2, b1, b2 := id.Draw(t, "tenant a"), id.Draw(t, "session a"), id.Draw(t, "tenant b"), id.Draw(t, "session b")
		pa, pb := subjects.InboxPrefix(a1, a2)+".", subjects.InboxPrefix(b1, b2)+"."
		if (a1 != b1 || a2 != b2) && (strings.HasPrefix(pa, pb) || strings.HasPrefix(pb, pa)) {
			t.Fatalf("%q and %q overlap", pa, pb)
		}
	})
}

func TestRootValidate(t *testing.T) {
	t.Parallel()
	for _, bad := range []subjects.Root{"", ".", "a.", ".a", "a..b", "a.*", ">", "a b"} {
		if err := bad.Validate(); !errors.Is(err, subjects.ErrSubject) {
			t.Errorf("Root(%q).Validate() = %v, want ErrSubject", bad, err)
		}
	}
	if err := subjects.DefaultRoot.Validate(); err != nil {
		t.Error(err)
	}
}

// A template is its family's subject with names in place of what differs.
func TestTemplate(t *testing.T) {
	t.Parallel()
	r := subjects.DefaultRoot
	for got, want := range map[string]string{
		r.Template(subjects.FamilyRequest, "search"): r.Request("{tenant}", "{session}", subjects.VerbSearch),
		r.Template(subjects.FamilyHook, "pre"):       r.Hook("{tenant}", "{session}", subjects.HookPre),
		r.Template(subjects.FamilyHost, "call"):      r.Host("{tenant}", "{host}", subjects.HostCall),
		r.Template(subjects.FamilyJob, ""):           r.Job("{tenant}", "{session}"),
		r.Template(subjects.FamilyStop, ""):          r.StopSession("{tenant}", "{session}"),
		r.Template(subjects.FamilyResult, ""):        r.Result("{tenant}", "{session}", "{call}"),
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
