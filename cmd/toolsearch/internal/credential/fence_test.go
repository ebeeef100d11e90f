package credential_test

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"toolsearch/subjects"
	"toolsearch/subjects/roles"
)

const root = subjects.DefaultRoot

// refusals is what a role must not do.
type refusals struct{ publish, subscribe []string }

// everybody but operators is refused these.
var internals = refusals{
	publish: []string{
		"$JS.API.STREAM.LIST", "$JS.API.STREAM.DELETE.TOOLSEARCH_JOBS", "$JS.API.STREAM.SNAPSHOT.KV_TOOLSEARCH_CALLS",
		"$SRV.PING", "$SRV.INFO.toolsearch", "$SYS.REQ.SERVER.PING", "_INBOX.x.y",
		root.StopSession("default", "other") + ".x.y", "anything",
	},
	subscribe: []string{">", "_INBOX.>", "$SYS.>", "$JS.EVENT.>", root.Stops(), root.Results(), "toolsearch.>"},
}

// outside is what nobody without a worker's rights may do.
var outside = refusals{
	publish: []string{
		"$JS.API.INFO", "$JS.API.STREAM.INFO.KV_TOOLSEARCH_CALLS", "$JS.API.STREAM.MSG.GET.KV_TOOLSEARCH_CALLS",
		"$JS.API.DIRECT.GET.KV_TOOLSEARCH_SCOPES", "$JS.API.STREAM.CREATE.MINE", "$JS.API.STREAM.PURGE.TOOLSEARCH_JOBS",
		"$JS.API.CONSUMER.CREATE.TOOLSEARCH_RESULTS.mine.toolsearch.v1.result.default.cli.*",
		"$JS.API.CONSUMER.MSG.NEXT.TOOLSEARCH_JOBS.tenant-default", "$JS.ACK.TOOLSEARCH_JOBS.tenant-default.1.1.1.1.0",
		"$KV.TOOLSEARCH_CALLS.default.cli.c1", "$KV.TOOLSEARCH_SCOPES.x", "$O.TOOLSEARCH_CATALOGS.C.x",
		"$O.TOOLSEARCH_BODIES_default.C.x", "$JS.API.STREAM.INFO.OBJ_TOOLSEARCH_BODIES_default",
		root.Job("default", "cli"), "toolsearch.v1.dead.default.cli.c1",
		root.Result("default", "cli", "c1"), root.Result("default", "other", "c1"), root.Result("globex", "cli", "c1"),
		root.Hook("default", "cli", subjects.HookPre), root.Hook("default", "other", subjects.HookPost),
		root.Host("default", "tools-1", subjects.HostCall), root.Host("globex", "tools-1", subjects.HostCall),
		subjects.InboxPrefix("default", "other") + ".x.y", roles.WorkerInbox + ".x.y",
		root.Request("globex", "cli", subjects.VerbAssemble), root.Request("default", "other", subjects.VerbCall),
		root.StopSession("globex", "cli"), root.StopCall("globex", "cli", "c1"),
		root.Request("default", "other", subjects.VerbAccounts), root.Request("globex", "cli", subjects.VerbDisconnect),
		root.Card("default", "cli", "op1"),
	},
	subscribe: []string{
		root.Jobs(), root.TenantJobs("default"), root.Requests("*"), root.Request("default", "cli", subjects.VerbSearch),
		root.StopSession("default", "cli"), "$SRV.>", "$SRV.PING", roles.WorkerInbox + ".>",
		subjects.InboxPrefix("globex", "cli") + ".>",
		root.Result("globex", "*", "*"), root.Hook("globex", "cli", "*"), root.Host("globex", "tools-1", "*"),
		root.Hook("default", "other", "*"), root.Host("default", "tools-2", "*"), root.SessionCards("default", "other"),
	},
}

// TestFences starts a server from the files of deploy/nats and checks, subject by subject, what it refuses to each role.
func TestFences(t *testing.T) {
	t.Parallel()
	want := map[roles.Role][]refusals{
		roles.Runtime: {internals, outside, {
			publish: []string{
				root.Request("default", "other", subjects.VerbAssemble), root.Request("default", "other", subjects.VerbSearch),
				root.StopSession("default", "other"), root.StopCall("default", "other", "c1"),
				// The user's, of its own session.
				root.Request("default", "cli", subjects.VerbAnswer), root.Request("default", "cli", subjects.VerbOperation),
				root.Request("default", "cli", subjects.VerbAccounts), root.Request("default", "cli", subjects.VerbDisconnect),
			},
			subscribe: []string{
				root.SessionCards("default", "cli"), "toolsearch.v1.card.>", root.SessionResults("default", "other"), root.Result("default", "*", "*"), root.Result("default", "other", "c1"),
				subjects.InboxPrefix("default", "other") + ".>", "_INBOX_default.>", "_INBOX_default.*.x", root.Host("default", "tools-1", "*"),
				root.Hook("default", "*", subjects.HookPre),
			},
		}},
		roles.Interface: {internals, outside, {
			publish: []string{
				root.Request("default", "cli", subjects.VerbAssemble), root.Request("default", "cli", subjects.VerbCall),
				root.StopSession("default", "cli"),
			},
			subscribe: []string{
				root.SessionResults("default", "cli"), root.Hook("default", "cli", "*"), "toolsearch.v1.card.>",
				subjects.InboxPrefix("default", "other") + ".>", root.Host("default", "tools-1", "*"),
			},
		}},
		roles.Orchestrator: {internals, outside, {
			publish: []string{
				root.Request("default", "cli", subjects.VerbAccounts), root.Request("default", "cli", subjects.VerbAnswer),
				root.Request("default", "cli", subjects.VerbSearch), root.Request("default", "cli", subjects.VerbDescribe),
				root.Request("default", "cli", subjects.VerbCall), root.Request("globex", "cli", subjects.VerbAssemble),
			},
			subscribe: []string{root.Hook("default", "cli", "*"), root.SessionCards("default", "cli"), "_INBOX_globex.>", root.Host("default", "tools-1", "*")},
		}},
		roles.Host: {internals, outside, {
			publish: []string{root.Request("default", "cli", subjects.VerbAssemble), root.StopSession("default", "cli")},
			subscribe: []string{
				root.Host("default", "*", "*"), root.SessionResults("default", "cli"), root.Hook("default", "cli", "*"),
				subjects.InboxPrefix("default", "cli") + ".>",
			},
		}},
		roles.Worker: {internals, {
			publish: []string{
				root.StopSession("default", "cli"), root.Request("default", "cli", subjects.VerbCall), "$JS.API.STREAM.RESTORE.X",
				"$JS.API.STREAM.LEADER.STEPDOWN.TOOLSEARCH_JOBS", subjects.InboxPrefix("default", "cli") + ".x.y",
			},
			subscribe: []string{subjects.InboxPrefix("default", "cli") + ".>", root.Host("default", "tools-1", "*")},
		}},
		roles.Operator: {{
			publish:   []string{"$SYS.REQ.SERVER.PING", root.Request("default", "cli", subjects.VerbCall), root.Host("default", "tools-1", subjects.HostCall)},
			subscribe: []string{">", "$SYS.>", root.Requests("*"), root.Host("default", "tools-1", "*")},
		}},
	}
	if missing := slices.DeleteFunc(roles.All(), func(r roles.Role) bool { return want[r] != nil }); len(missing) > 0 {
		t.Fatalf("nothing is tried as %v", missing)
	}
	modes(t, func(t *testing.T, b *bus) {
		for _, r := range slices.Sorted(maps.Keys(want)) {
			u := b.login(r, own)
			for _, list := range want[r] {
				for _, s := range list.publish {
					u.refusedPublish(s)
				}
				for _, s := range list.subscribe {
					u.refusedSubscribe(s)
				}
			}
		}
	})
}

// TestReplySubjectIsNoWayOut tries to have others publish where a runtime may not, by naming that subject as the reply of
// a request that it may send: JetStream's acknowledgement of a stop, and a worker's answer.
func TestReplySubjectIsNoWayOut(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, b *bus) {
		b.must(roles.Operator, "init")
		answers := b.login(roles.Worker, own)
		answered := make(chan struct{}, 16)
		if _, err := answers.Conn.Subscribe(root.Requests("*"), func(m *nats.Msg) {
			if err := m.Respond([]byte(`{"queries": []}`)); err != nil {
				t.Error(err)
			}
			answered <- struct{}{}
		}); err != nil {
			t.Fatal(err)
		}
		if err := answers.Flush(); err != nil {
			t.Fatal(err)
		}
		operator := b.login(roles.Operator, own)
		js, err := jetstream.New(operator.Conn)
		if err != nil {
			t.Fatal(err)
		}
		ctx := inTime(t)
		const record = "$KV.TOOLSEARCH_CALLS.default.other.c1"
		if _, err := js.Publish(ctx, record, []byte("the journal")); err != nil {
			t.Fatal(err)
		}
		if _, err := js.Publish(ctx, root.Job("default", "other"), []byte("a job")); err != nil {
			t.Fatal(err)
		}

		runtime := b.login(roles.Runtime, own)
		targets := []string{root.StopSession("default", "other"), root.StopCall("globex", "s", "c"), record,
			root.Job("default", "other"), root.Result("default", "other", "c1"), root.Card("default", "other", "op1"), "$JS.API.STREAM.PURGE.TOOLSEARCH_JOBS",
			"$JS.API.STREAM.DELETE.TOOLSEARCH_JOBS", root.Host("default", "tools-1", subjects.HostCall)}
		for _, reply := range targets {
			for _, subject := range []string{root.StopSession("default", "cli"), root.Request("default", "cli", subjects.VerbSearch)} {
				if err := runtime.PublishRequest(subject, reply, nil); err != nil {
					t.Fatal(err)
				}
			}
			await(t, answered, "the worker's answer")
		}
		if err := answers.Flush(); err != nil {
			t.Fatal(err)
		}
		// What JetStream acknowledges after all that is behind it.
		if _, err := runtime.RequestWithContext(ctx, root.StopSession("default", "cli"), nil); err != nil {
			t.Fatal(err)
		}
		stored := map[string]uint64{}
		for _, name := range []string{"KV_TOOLSEARCH_CALLS", "TOOLSEARCH_JOBS", "TOOLSEARCH_RESULTS"} {
			s, err := js.Stream(ctx, name)
			if err != nil {
				t.Fatal(err)
			}
			info, err := s.Info(ctx, jetstream.WithSubjectFilter(">"))
			if err != nil {
				t.Fatal(err)
			}
			maps.Copy(stored, info.State.Subjects)
		}
		want := map[string]uint64{record: 1, root.Job("default", "other"): 1, root.StopSession("default", "cli"): 1}
		if !maps.Equal(stored, want) {
			t.Errorf("stored are %v, want %v", stored, want)
		}
		calls, err := js.KeyValue(ctx, "TOOLSEARCH_CALLS")
		if err != nil {
			t.Fatal(err)
		}
		if e, err := calls.Get(ctx, "default.other.c1"); err != nil || string(e.Value()) != "the journal" {
			t.Errorf("the record is %v, %v", e, err)
		}
	})
}

// TestAnswersAreBounded checks that a host and a runtime may answer what they are asked, once, and publish nothing else.
func TestAnswersAreBounded(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, b *bus) {
		worker := b.login(roles.Worker, own)
		for role, subject := range map[roles.Role]string{
			roles.Host: root.Host("default", "tools-1", subjects.HostCall), roles.Runtime: root.Hook("default", "cli", subjects.HookPre),
		} {
			u := b.login(role, own)
			asked := make(chan *nats.Msg, 1)
			if _, err := u.Conn.Subscribe(subject, func(m *nats.Msg) {
				if err := m.Respond([]byte("first")); err != nil {
					t.Error(err)
				}
				asked <- m
			}); err != nil {
				t.Fatal(err)
			}
			if err := u.Flush(); err != nil {
				t.Fatal(err)
			}
			m, err := worker.RequestWithContext(inTime(t), subject, nil)
			if err != nil || string(m.Data) != "first" {
				t.Fatalf("%s: %v, %v", role, m, err)
			}
			reply := await(t, asked, "the question").Reply
			if err := u.Publish(reply, []byte("second")); err != nil {
				t.Fatal(err)
			}
			u.refused("Publish", reply)
		}
	})
}

// TestCaseOfNames checks that a server keeps tenants apart that differ by case alone.
func TestCaseOfNames(t *testing.T) {
	t.Parallel()
	b := newBus(t, true)
	n := roles.Names{Tenant: "Acme", Session: "Desktop_1"}
	u := b.login(roles.Runtime, n)
	if err := u.Publish(root.StopSession("Acme", "Desktop_1"), nil); err != nil {
		t.Fatal(err)
	}
	sub, err := u.SubscribeSync(root.SessionResults("Acme", "Desktop_1"))
	if err != nil {
		t.Fatal(err)
	}
	if err := u.Flush(); err != nil {
		t.Fatal(err)
	}
	if !sub.IsValid() || u.LastError() != nil {
		t.Fatalf("its own subjects are refused: %v", u.LastError())
	}
	u.refusedPublish(root.StopSession("acme", "desktop_1"))
	u.refusedSubscribe(root.SessionResults("acme", "desktop_1"))
	u.refusedSubscribe(subjects.InboxPrefix("acme", "desktop_1") + ".>")
}

// TestInboxIsPrivate checks the pair: a reply reaches its session, and a session that listens wide hears nothing.
func TestInboxIsPrivate(t *testing.T) {
	t.Parallel()
	b := newBus(t, true)
	b.must(roles.Operator, "init")
	other := b.login(roles.Runtime, roles.Names{Tenant: "default", Session: "other"})
	for _, s := range []string{subjects.InboxPrefix("default", "cli") + ".>", "_INBOX_default.*.*.*", ">"} {
		other.refusedSubscribe(s)
	}
	cli := b.login(roles.Runtime, own)
	m, err := cli.RequestWithContext(inTime(t), root.StopSession("default", "cli"), nil)
	var ack subjects.StopAck
	if err != nil || json.Unmarshal(m.Data, &ack) != nil || ack.Seq == 0 {
		t.Fatalf("%v %v", m, err)
	}
}

// TestInterfaceIsPrivate checks that what a user's interface is answered and shown does not reach the runtime of the very
// same session, although both listen to an inbox of the same name.
func TestInterfaceIsPrivate(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, b *bus) {
		ctx := inTime(t)
		worker := b.login(roles.Worker, own)
		if _, err := worker.Conn.Subscribe(root.Requests(subjects.VerbAccounts), func(m *nats.Msg) {
			if err := m.Respond([]byte("for the user")); err != nil {
				t.Error(err)
			}
		}); err != nil {
			t.Fatal(err)
		}
		if err := worker.Flush(); err != nil {
			t.Fatal(err)
		}
		runtime, user := b.login(roles.Runtime, own), b.login(roles.Interface, own)
		overheard, err := runtime.SubscribeSync(subjects.InboxPrefix("default", "cli") + ".>")
		if err != nil {
			t.Fatal(err)
		}
		cards, err := user.SubscribeSync(root.SessionCards("default", "cli"))
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range []interface{ Flush() error }{runtime, user} {
			if err := u.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		m, err := user.RequestWithContext(ctx, root.Request("default", "cli", subjects.VerbAccounts), nil)
		if err != nil || string(m.Data) != "for the user" {
			t.Fatalf("%v, %v", m, err)
		}
		if err := worker.Publish(root.Card("default", "cli", "op1"), []byte("a card")); err != nil {
			t.Fatal(err)
		}
		if m, err := cards.NextMsgWithContext(ctx); err != nil || string(m.Data) != "a card" {
			t.Fatalf("%v, %v", m, err)
		}
		// A round trip of the runtime's own: what was on its way to it has come.
		if err := runtime.Flush(); err != nil {
			t.Fatal(err)
		}
		if n, _, err := overheard.Pending(); err != nil || n != 0 {
			t.Errorf("the runtime overheard %d messages, %v", n, err)
		}
		runtime.quiet(roles.Runtime)
		user.quiet(roles.Interface)
	})
}
