package roles_test

import (
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"toolsearch/subjects"
	"toolsearch/subjects/roles"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func permissions(t testing.TB, r roles.Role, n roles.Names) roles.Permissions {
	t.Helper()
	p, err := r.Permissions(n)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPermissions(t *testing.T) {
	t.Parallel()
	n := roles.Names{Tenant: "acme", Session: "desktop-1", Host: "mcp-1"}
	for role, want := range map[roles.Role]struct{ publish, subscribe string }{
		roles.Runtime: {
			"toolsearch.v1.req.acme.desktop-1.* toolsearch.v1.stop.acme.desktop-1 toolsearch.v1.stop.acme.desktop-1.*",
			"toolsearch.v1.result.acme.desktop-1.* toolsearch.v1.hook.acme.desktop-1.* _INBOX_acme.desktop-1.>",
		},
		roles.Orchestrator: {
			"toolsearch.v1.req.acme.*.assemble toolsearch.v1.stop.acme.* toolsearch.v1.stop.acme.*.*",
			"toolsearch.v1.result.acme.*.* _INBOX_acme.>",
		},
		roles.Interface: {"toolsearch.v1.ui.acme.desktop-1.*", "toolsearch.v1.card.acme.desktop-1.* _INBOX_acme.desktop-1.>"},
		roles.Host:      {"", "toolsearch.v1.host.acme.mcp-1.* _INBOX_acme.mcp-1.>"},
	} {
		p := permissions(t, role, n)
		if got := strings.Join(p.Publish, " "); got != want.publish {
			t.Errorf("%s publishes %s, want %s", role, got, want.publish)
		}
		if got := strings.Join(p.Subscribe, " "); got != want.subscribe {
			t.Errorf("%s subscribes %s, want %s", role, got, want.subscribe)
		}
	}
}

// TestBodiesOpenOneBucket checks that the option opens the tenant's own buckets and leaves everything else as it was.
func TestBodiesOpenOneBucket(t *testing.T) {
	t.Parallel()
	n := roles.Names{Tenant: "acme", Session: "s1", Host: "h1"}
	for _, r := range []roles.Role{roles.Runtime, roles.Orchestrator, roles.Host} {
		n.Bodies = false
		without := permissions(t, r, n)
		n.Bodies = true
		with := permissions(t, r, n)
		if !slices.Equal(with.Subscribe, without.Subscribe) {
			t.Errorf("%s subscribes %v with bodies and %v without", r, with.Subscribe, without.Subscribe)
		}
		more := slices.DeleteFunc(slices.Clone(with.Publish), func(s string) bool { return slices.Contains(without.Publish, s) })
		if len(more) == 0 {
			t.Errorf("%s gets nothing more with bodies", r)
		}
		for _, s := range more {
			own := strings.Contains(s, "TOOLSEARCH_BODIES_acme") || r == roles.Host && strings.Contains(s, "TOOLSEARCH_HOSTS_acme")
			if !own {
				t.Errorf("%s may use %s, which is not of its tenant's buckets", r, s)
			}
		}
		for _, s := range without.Publish {
			if strings.HasPrefix(s, "$") {
				t.Errorf("%s may use %s without bodies", r, s)
			}
		}
	}
}

// TestFence checks over any names that what a fenced role gets meets nothing of another tenant or session.
func TestFence(t *testing.T) {
	t.Parallel()
	token := rapid.StringMatching(`[A-Za-z0-9_-]{1,12}`)
	rapid.Check(t, func(t *rapid.T) {
		n := roles.Names{
			Root:   subjects.Root(rapid.SampledFrom([]string{"", "a.b", "toolsearch.v2"}).Draw(t, "root")),
			Tenant: token.Draw(t, "tenant"), Session: token.Draw(t, "session"), Host: token.Draw(t, "host"),
			Bodies: rapid.Bool().Draw(t, "bodies"),
		}
		root := n.Root
		if root == "" {
			root = subjects.DefaultRoot
		}
		other := token.Filter(func(s string) bool { return s != n.Session }).Draw(t, "other session")
		stranger := token.Filter(func(s string) bool { return s != n.Tenant }).Draw(t, "other tenant")
		// What a user's interface asks and is shown is no runtime's, its own session's included.
		interfaces := func(tenant, session string) []string {
			out := []string{root.Card(tenant, session, "c")}
			for _, v := range []subjects.Verb{subjects.VerbAnswer, subjects.VerbOperation, subjects.VerbAccounts, subjects.VerbDisconnect} {
				out = append(out, root.Request(tenant, session, v))
			}
			return out
		}
		foreign := func(tenant, session string) []string {
			out := []string{root.StopSession(tenant, session), root.StopCall(tenant, session, "c"), root.Result(tenant, session, "c"),
				root.Hook(tenant, session, subjects.HookPre), root.Job(tenant, session), root.Host(tenant, session+"x", subjects.HostCall),
				subjects.InboxPrefix(tenant, session) + ".x.y", "$KV.TOOLSEARCH_CALLS." + tenant + "." + session + ".c",
				"$O." + subjects.BodyBucket(tenant+"x") + ".C.n", roles.WorkerInbox + ".x.y", "_INBOX.x.y", "$JS.API.STREAM.LIST", "$SRV.PING"}
			for _, v := range []subjects.Verb{subjects.VerbAssemble, subjects.VerbSearch, subjects.VerbCall} {
				out = append(out, root.Request(tenant, session, v))
			}
			return out
		}
		p, err := roles.Runtime.Permissions(n)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range slices.Concat(foreign(n.Tenant, other), foreign(stranger, n.Session), interfaces(n.Tenant, n.Session)) {
			for _, list := range [][]string{p.Publish, p.Subscribe} {
				if i := slices.IndexFunc(list, func(pattern string) bool { return overlaps(pattern, s) }); i >= 0 {
					t.Fatalf("runtime %s.%s: %s meets %s", n.Tenant, n.Session, list[i], s)
				}
			}
		}
		p, err = roles.Interface.Permissions(n)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range slices.Concat(foreign(n.Tenant, other), foreign(stranger, n.Session),
			interfaces(n.Tenant, other), interfaces(stranger, n.Session)) {
			for _, list := range [][]string{p.Publish, p.Subscribe} {
				if i := slices.IndexFunc(list, func(pattern string) bool { return overlaps(pattern, s) }); i >= 0 {
					t.Fatalf("interface %s.%s: %s meets %s", n.Tenant, n.Session, list[i], s)
				}
			}
		}
		p, err = roles.Orchestrator.Permissions(n)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range foreign(stranger, n.Session) {
			for _, list := range [][]string{p.Publish, p.Subscribe} {
				if i := slices.IndexFunc(list, func(pattern string) bool { return overlaps(pattern, s) }); i >= 0 {
					t.Fatalf("orchestrator %s: %s meets %s", n.Tenant, list[i], s)
				}
			}
		}
	})
}

// overlaps reports whether a subject can match both patterns.
func overlaps(a, b string) bool {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	for i := 0; ; i++ {
		switch {
		case i == len(as) || i == len(bs):
			return i == len(as) && i == len(bs)
		case as[i] == ">" || bs[i] == ">":
			return true
		case as[i] != bs[i] && as[i] != "*" && bs[i] != "*":
			return false
		}
	}
}

func TestBadNames(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		role  roles.Role
		names roles.Names
	}{
		"no tenant":        {roles.Orchestrator, roles.Names{}},
		"no session":       {roles.Runtime, roles.Names{Tenant: "acme"}},
		"no host":          {roles.Host, roles.Names{Tenant: "acme", Session: "s"}},
		"wild tenant":      {roles.Orchestrator, roles.Names{Tenant: "*"}},
		"wild session":     {roles.Runtime, roles.Names{Tenant: "acme", Session: ">"}},
		"two tokens":       {roles.Runtime, roles.Names{Tenant: "acme", Session: "a.b"}},
		"wild in template": {roles.Runtime, roles.Names{Tenant: "acme", Session: "{{tag(a)}}.{{tag(b)}}"}},
		"text in template": {roles.Runtime, roles.Names{Tenant: "acme", Session: "*{{tag(a)}}"}},
		"bad root":         {roles.Worker, roles.Names{Root: "a..b"}},
		"unknown role":     {"admin", roles.Names{Tenant: "acme"}},
	} {
		if p, err := test.role.Permissions(test.names); err == nil {
			t.Errorf("%s: no error but %v", name, p)
		}
	}
	if _, err := roles.Runtime.Permissions(roles.Names{Tenant: roles.Tag("tenant"), Session: roles.Tag("session")}); err != nil {
		t.Errorf("templates: %v", err)
	}
}

// TestAccounts checks that the fenced roles are not in the account of the streams, and that only the families of the
// contract that a runtime has to do with pass between the two.
func TestAccounts(t *testing.T) {
	t.Parallel()
	for _, r := range roles.All() {
		want := map[roles.Role]string{roles.Runtime: roles.Clients, roles.Orchestrator: roles.Clients, roles.Interface: roles.Interfaces}[r]
		if want == "" {
			want = roles.Service
		}
		if r.Account() != want {
			t.Errorf("%s is in %s, want %s", r, r.Account(), want)
		}
	}
	for _, c := range roles.Crossings("", false) {
		for _, private := range []string{"toolsearch.v1.ui.a.b.accounts", "toolsearch.v1.card.a.b.c"} {
			if overlaps(c.Subject, private) && (c.From == roles.Clients || c.To == roles.Clients) {
				t.Errorf("%s reaches runtimes by %s", private, c.Subject)
			}
		}
		for _, never := range []string{"toolsearch.v1.job.a.b", "toolsearch.v1.host.a.b.call", "$KV.TOOLSEARCH_CALLS.a.b.c",
			"$JS.API.STREAM.DELETE.X", "$JS.API.STREAM.PURGE.X", "$JS.API.CONSUMER.CREATE.X.y.z", "$SRV.PING", roles.WorkerInbox + ".x"} {
			if overlaps(c.Subject, never) {
				t.Errorf("%s passes from %s to %s by %s", never, c.From, c.To, c.Subject)
			}
		}
	}
}
