package subjects_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"toolsearch/subjects"
)

// fenced is a bus whose one user is a session of a tenant, with the permissions that the documentation gives it.
func fenced(t *testing.T) *server.Server {
	return startBus(t, func(o *server.Options) {
		o.Users = []*server.User{{Username: "s1", Password: "p", Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Allow: []string{"toolsearch.v1.req.acme.s1.*", "toolsearch.v1.stop.acme.s1"}},
			Subscribe: &server.SubjectPermission{Allow: []string{
				"toolsearch.v1.result.acme.s1.*", subjects.InboxPrefix("acme", "s1") + ".>"}},
		}}}
	})
}

// patient waits for minutes before it does anything again, so that only a refusal ends a question early.
var patient = subjects.ClientOptions{
	Timeout: 5 * time.Minute, CallTimeout: 5 * time.Minute, Reattach: time.Hour, AskAgain: time.Hour, Retries: -1,
}

// What the server refuses ends at once, as what it is, whoever made the connection and whatever handlers it has.
func TestRefusedAtOnce(t *testing.T) {
	t.Parallel()
	ask := map[string]struct {
		subject string
		do      func(context.Context, *subjects.Session) error
	}{
		"assemble": {"toolsearch.v1.req.acme.s2.assemble", func(ctx context.Context, s *subjects.Session) error {
			_, err := s.Assemble(ctx, &subjects.AssembleRequest{Tools: json.RawMessage(`[]`)})
			return err
		}},
		"search": {"toolsearch.v1.req.acme.s2.search", func(ctx context.Context, s *subjects.Session) error {
			_, err := s.Search(ctx, subjects.Handle("x"), json.RawMessage(`{"queries":["mail"]}`))
			return err
		}},
		"call": {"toolsearch.v1.req.acme.s2.call", func(ctx context.Context, s *subjects.Session) error {
			_, err := s.Call(ctx, subjects.CallRequest{Scope: subjects.Handle("x")}, func(subjects.EntryEvent) {})
			return err
		}},
		"call accepted": {"toolsearch.v1.req.acme.s2.call", func(ctx context.Context, s *subjects.Session) error {
			_, err := s.CallAsync(ctx, subjects.CallRequest{Scope: subjects.Handle("x")})
			return err
		}},
		"disconnect": {"toolsearch.v1.ui.acme.s2.disconnect", func(ctx context.Context, s *subjects.Session) error {
			_, err := s.Disconnect(ctx, "c-1")
			return err
		}},
		"stop": {"toolsearch.v1.stop.acme.s2", func(ctx context.Context, s *subjects.Session) error {
			_, err := s.Stop(ctx, "")
			return err
		}},
		"watch": {"toolsearch.v1.result.acme.s2.*", func(ctx context.Context, s *subjects.Session) error {
			_, err := s.Watch(ctx, subjects.WatchOptions{})
			return err
		}},
		"cards": {"toolsearch.v1.card.acme.s2.*", func(ctx context.Context, s *subjects.Session) error {
			_, err := s.Cards(ctx)
			return err
		}},
		"replay": {"$JS.API.CONSUMER.CREATE." + subjects.ResultsStream, func(ctx context.Context, s *subjects.Session) error {
			_, err := s.Watch(ctx, subjects.WatchOptions{Replay: true})
			return err
		}},
	}
	for name, options := range map[string][]nats.Option{
		"as documented":                      subjects.ConnectOptions("acme", "s1"),
		"own":                                {nats.CustomInboxPrefix(subjects.InboxPrefix("acme", "s1"))},
		"own, a subscription for each reply": {nats.CustomInboxPrefix(subjects.InboxPrefix("acme", "s1")), nats.UseOldRequestStyle()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := fenced(t)
			var told []error
			done := make(chan struct{})
			handler := func(_ *nats.Conn, _ *nats.Subscription, err error) {
				if told = append(told, err); len(told) == len(ask) {
					close(done)
				}
			}
			nc := connect(t, s, append(options, nats.UserInfo("s1", "p"), nats.ErrorHandler(handler))...)
			client, err := subjects.NewClient(nc, patient)
			if err != nil {
				t.Fatal(err)
			}
			for name, a := range ask {
				err := a.do(inTime(t), client.Session("acme", "s2"))
				var refused *subjects.PermissionError
				switch {
				case !errors.As(err, &refused) || !errors.Is(err, nats.ErrPermissionViolation):
					t.Errorf("%s: %v, want a refusal", name, err)
				case !strings.HasPrefix(refused.Subject, a.subject) || !strings.Contains(err.Error(), refused.Subject):
					t.Errorf("%s: it names %s in %q, want %s", name, refused.Subject, err, a.subject)
				}
			}
			<-done // the caller's handler has heard of each
		})
	}
}

// A connection that may not hear its replies gets none; every question on it says why.
func TestRefusedReplies(t *testing.T) {
	t.Parallel()
	nc := connect(t, fenced(t), nats.UserInfo("s1", "p"), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	client, err := subjects.NewClient(nc, patient)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		_, err := client.Session("acme", "s1").Stop(inTime(t), "")
		if refused := subjects.AsPermissionError(err); refused == nil || !refused.Subscribe || !strings.HasPrefix(refused.Subject, "_INBOX.") {
			t.Errorf("got %v, want the refusal of the inbox", err)
		}
	}
}

// A refusal of something else ends no question.
func TestRefusalOfAnother(t *testing.T) {
	t.Parallel()
	s := fenced(t)
	nc := connect(t, s, append(subjects.ConnectOptions("acme", "s1"), nats.UserInfo("s1", "p"),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))...)
	client, err := subjects.NewClient(nc, patient)
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.Session("acme", "s2").Stop(inTime(t), "")
	if subjects.AsPermissionError(err) == nil {
		t.Fatalf("got %v, want a refusal", err)
	}
	_, err = client.Session("acme", "s1").Stop(inTime(t), "") // nobody listens
	if code(err) != subjects.CodeUnavailable {
		t.Errorf("got %v, want %s", err, subjects.CodeUnavailable)
	}
}

func TestAsPermissionError(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]*subjects.PermissionError{
		`Permissions Violation for Publish to "a.b"`:                                {Subject: "a.b"},
		`Permissions Violation for Publish with Reply of "_INBOX.x"`:                {Subject: "_INBOX.x"},
		`Permissions Violation for Subscription to "a.>"`:                           {Subject: "a.>", Subscribe: true},
		`Permissions Violation for Subscription to "a.>" using queue "q" (sid "7")`: {Subject: "a.>", Subscribe: true},
		`Permissions Violation`:                                                     nil,
	} {
		got := subjects.AsPermissionError(fmt.Errorf("%w: %s", nats.ErrPermissionViolation, text))
		if (got == nil) != (want == nil) || got != nil && (got.Subject != want.Subject || got.Subscribe != want.Subscribe) {
			t.Errorf("%s: got %+v, want %+v", text, got, want)
		}
	}
	if got := subjects.AsPermissionError(errors.New(`Publish to "a.b"`)); got != nil {
		t.Errorf("another error is taken for a refusal: %v", got)
	}
}
