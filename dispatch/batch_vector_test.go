package dispatch

import (
	"bytes"
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/cenkalti/backoff/v4"

	"toolsearch/catalog"
	"toolsearch/catalog/catalogtest"
	"toolsearch/connectors"
	"toolsearch/connectors/gatewaytest"
	"toolsearch/subjects"
)

// TestVectorsBatch takes the batches of the conformance cases through the door and then, one entry after another, to
// a gateway over HTTP. What makes a batch durable is tested where the stream is.
func TestVectorsBatch(t *testing.T) {
	t.Parallel()
	for v := range catalogtest.Vectors(t, "results.jsonl") {
		if v.Op != "batch" {
			continue
		}
		t.Run(v.ID, func(t *testing.T) {
			t.Parallel()
			var given struct {
				Tools, Calls json.RawMessage
				Gateway      scripted
				Surface      subjects.Surface
				StopAfter    *int `json:"stop_after"`
			}
			var want struct {
				Error    *wantText
				Requests []any
				Results  json.RawMessage
			}
			v.DecodeGiven(t, &given)
			v.DecodeWant(t, &want)
			server, sender := scriptedGateway(t, given.Gateway)
			s := batchScope(t, v.Tools(t, given.Tools), given.Surface)
			plan, err := Resolve(s, json.RawMessage(`{"calls":`+string(given.Calls)+`}`))
			if want.Error != nil {
				compareError(t, err, want.Error)
			} else if err != nil {
				t.Fatal(err)
			} else {
				payload := NewPayload(plan, s, time.Time{})
				compareBatch(t, runInOrder(t.Context(), sender, &payload, given.StopAfter), v.Want)
			}
			compareSent(t, server.Requests(), want.Requests, given.Gateway.Answers)
		})
	}
}

// batchScope grants connectors as a session does: by the tool that manages them.
func batchScope(t *testing.T, tools []catalogtest.Element, surface subjects.Surface) *catalog.Scope {
	t.Helper()
	c, err := catalog.Build(catalogtest.Array(tools), catalog.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := catalog.NewScope(c, catalog.Owner{Tenant: "t", Session: "s"}, &subjects.AssembleRequest{Surface: surface}, catalog.DefaultConfig(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// scripted is given.gateway of a case.
type scripted struct {
	Answers   []gatewaytest.Answer `json:"answers"`
	Token     *string              `json:"token"`
	Available *bool                `json:"available"`
}

// expired is a tenant that is signed in and whose token has run out.
type expired struct{}

func (expired) Token(context.Context, string) (string, error) { return "", connectors.ErrNoToken }

func (g *scripted) tokens() connectors.Tokens {
	switch {
	case g.Available != nil && !*g.Available:
		return connectors.Static(nil)
	case g.Token != nil && *g.Token == "":
		return expired{}
	case g.Token != nil:
		return connectors.Shared(*g.Token)
	}
	return connectors.Shared("tok")
}

// prompt ends every wait at once, also one that an answer of 429 asks for.
type prompt struct{ connectors.Clock }

func (prompt) NewTimer(time.Duration) (<-chan time.Time, func()) {
	c := make(chan time.Time, 1)
	c <- time.Now()
	return c, func() {}
}

func scriptedGateway(t *testing.T, g scripted) (*gatewaytest.Gateway, Sender) {
	t.Helper()
	if g.Answers == nil {
		g.Answers = []gatewaytest.Answer{}
	}
	server, err := gatewaytest.Start(gatewaytest.Options{Answers: g.Answers})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	origin, err := connectors.ParseOrigin(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	client, err := connectors.NewClient(connectors.ClientOptions{Origin: origin, Tokens: g.tokens(), Clock: prompt{connectors.SystemClock()},
		ExecuteAttempts: 2, Backoff: func() backoff.BackOff { return &backoff.ZeroBackOff{} }})
	if err != nil {
		t.Fatal(err)
	}
	gateway, err := connectors.NewGateway(client, connectors.GatewayOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(gateway.Close)
	return server, GatewaySender(gateway)
}

// runInOrder sends the entries one after another. The stop is there once so many of them have been started.
func runInOrder(ctx context.Context, sender Sender, p *Payload, stopAfter *int) *subjects.BatchReply {
	rec := &Record{Entries: make([]EntryRecord, len(p.Entries))}
	outs, started := make([]*EntryOutcome, len(p.Entries)), 0
	for i, e := range p.Entries {
		rec.Entries[i].Name = e.Name
		switch {
		case e.Refused != nil:
			outs[i] = &EntryOutcome{Error: e.Refused}
		case stopAfter != nil && started >= *stopAfter:
			outs[i] = &EntryOutcome{Error: &subjects.EntryError{Code: subjects.EntryInterrupted, Message: textInterrupted}}
		default:
			started++
			sent := sender.Send(ctx, Sending{Key: CallKey{"t", "s", "c"}, Index: i, Name: e.Name, Arguments: e.Arguments, Surface: p.Surface,
				IdempotencyKey: func(slug string) string { return IdempotencyKey("nonce", i, slug) }})
			outs[i] = &sent.EntryOutcome
		}
	}
	return assembleBatch(rec, outs)
}

// compareBatch compares a reply with the results and counts that a case wants; texts of our own by what they mention.
func compareBatch(t *testing.T, got *subjects.BatchReply, want json.RawMessage) {
	t.Helper()
	var w struct {
		Results []struct {
			Index    int
			Name     string
			Response json.RawMessage
			Error    map[string]any
			Account  string
		}
		Success int `json:"success_count"`
		Error   int `json:"error_count"`
		Total   int `json:"total_count"`
	}
	if err := json.Unmarshal(want, &w); err != nil {
		t.Fatal(err)
	}
	if got.SuccessCount != w.Success || got.ErrorCount != w.Error || got.TotalCount != w.Total || len(got.Results) != len(w.Results) {
		t.Fatalf("%+v, want %s", got, want)
	}
	for i, r := range got.Results {
		x := w.Results[i]
		if r.Index != x.Index || r.Name != x.Name || r.Account != x.Account || (r.Error == nil) != (x.Error == nil) {
			t.Errorf("entry %d is %+v, want %+v", i, r, x)
			continue
		}
		if r.Error == nil {
			compareJSON(t, r.Response, x.Response)
			continue
		}
		p, err := json.Marshal(r.Error)
		if err != nil {
			t.Fatal(err)
		}
		var e map[string]any
		if err := json.Unmarshal(p, &e); err != nil {
			t.Fatal(err)
		}
		if len(e) != len(x.Error) {
			t.Errorf("entry %d: %v, want %v", i, e, x.Error)
		}
		for k, v := range x.Error {
			if text, ok := v.(map[string]any); ok {
				id, _ := text["id"].(string)
				s, _ := e[k].(string)
				(&wantText{ID: id}).compare(t, s)
			} else if e[k] != v {
				t.Errorf("entry %d: %s is %v, want %v", i, k, e[k], v)
			}
		}
	}
}

// compareSent compares what the gateway got. A request that is sent again, because its answer allows it, keeps its key;
// every other has one of its own.
func compareSent(t *testing.T, got []gatewaytest.Request, want []any, answers []gatewaytest.Answer) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d requests were sent, want %d", len(got), len(want))
	}
	keys := map[string]bool{}
	for i, r := range got {
		w, err := json.Marshal(map[string]any{"tools": []any{want[i]}})
		if err != nil {
			t.Fatal(err)
		}
		compareJSON(t, r.Body, w)
		again := i > 0 && (answers[i-1].Fault != "" || answers[i-1].Status >= 500 || answers[i-1].Status == 429) &&
			bytes.Equal(r.Body, got[i-1].Body) && r.Key == got[i-1].Key
		if keys[r.Key] && !again {
			t.Errorf("request %d has the key of another", i)
		}
		keys[r.Key] = true
	}
}
