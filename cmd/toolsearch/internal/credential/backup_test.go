package credential_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"toolsearch/subjects/roles"
)

// TestOperatorBacksUp takes a stream away as the runbook says, removes it and puts it back, with an operator's rights.
func TestOperatorBacksUp(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, b *bus) {
		ctx := inTime(t)
		b.must(roles.Operator, "init")
		operator := b.login(roles.Operator, own)
		js, err := jetstream.New(operator.Conn)
		if err != nil {
			t.Fatal(err)
		}
		const name = "TOOLSEARCH_JOBS"
		if _, err := js.Publish(ctx, root.Job("default", "cli"), []byte("a job")); err != nil {
			t.Fatal(err)
		}
		ask := func(verb string, request, reply any) {
			t.Helper()
			body, err := json.Marshal(request)
			if err != nil {
				t.Fatal(err)
			}
			m, err := operator.RequestWithContext(ctx, "$JS.API.STREAM."+verb+"."+name, body)
			if err != nil {
				t.Fatalf("%s: %v", verb, err)
			}
			if err := json.Unmarshal(m.Data, reply); err != nil {
				t.Fatal(err)
			}
		}
		type failure struct {
			Error *jetstream.APIError `json:"error"`
		}

		chunks, err := operator.SubscribeSync(operator.NewInbox())
		if err != nil {
			t.Fatal(err)
		}
		var taken struct {
			failure
			Config json.RawMessage `json:"config"`
			State  json.RawMessage `json:"state"`
		}
		ask("SNAPSHOT", map[string]any{"deliver_subject": chunks.Subject, "no_consumers": true}, &taken)
		if taken.Error != nil {
			t.Fatal(taken.Error)
		}
		var backup [][]byte
		for {
			m, err := chunks.NextMsgWithContext(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if len(m.Data) == 0 {
				break
			}
			backup = append(backup, m.Data)
			// The server sends on only as it hears this.
			if err := m.Respond(nil); m.Reply != "" && err != nil {
				t.Fatal(err)
			}
		}
		if err := js.DeleteStream(ctx, name); err != nil {
			t.Fatal(err)
		}

		var put struct {
			failure
			Deliver string `json:"deliver_subject"`
		}
		ask("RESTORE", map[string]any{"config": taken.Config, "state": taken.State}, &put)
		if put.Error != nil {
			t.Fatal(put.Error)
		}
		var last *nats.Msg
		for _, chunk := range append(backup, nil) {
			if last, err = operator.Request(put.Deliver, chunk, 20*time.Second); err != nil {
				t.Fatalf("%s: %v; %v", put.Deliver, err, operator.LastError())
			}
		}
		var done failure
		if err := json.Unmarshal(last.Data, &done); err != nil || done.Error != nil {
			t.Fatalf("the end of the restore: %s %v", last.Data, err)
		}
		stream, err := js.Stream(ctx, name)
		if err != nil || stream.CachedInfo().State.Msgs != 1 {
			t.Errorf("the restored stream: %v %v", stream, err)
		}
		operator.quiet(roles.Operator)
	})
}

// TestWorkerCountsItsQueue lists the queue's consumers as the worker's metrics do.
func TestWorkerCountsItsQueue(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, b *bus) {
		ctx := inTime(t)
		b.must(roles.Operator, "init")
		u := b.login(roles.Worker, own)
		js, err := jetstream.New(u.Conn)
		if err != nil {
			t.Fatal(err)
		}
		jobs, err := js.Stream(ctx, "TOOLSEARCH_JOBS")
		if err != nil {
			t.Fatal(err)
		}
		list := jobs.ListConsumers(ctx)
		for range list.Info() {
		}
		if err := list.Err(); err != nil {
			t.Errorf("%v; %v", err, u.LastError())
		}
		u.quiet(roles.Worker)
	})
}
