package worker

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"toolsearch/connectors/gatewaytest"
	"toolsearch/subjects"
	"toolsearch/telemetry"
)

// metricsFile lists what a worker shows that has been driven: a name and a type on each line. Dashboards and rules are
// checked against it.
var metricsFile = filepath.Join("..", "telemetry", "testdata", "metrics.txt")

const metricsHead = `# Every metric of a worker that has been driven: its name in Prometheus and its type. A histogram stands for its
# series _bucket, _sum and _count. Written by the scrape test of package worker, with -update.
`

// TestScrapeShowsEveryMetric drives a worker through everything that is measured, and scrapes it.
func TestScrapeShowsEveryMetric(t *testing.T) {
	t.Parallel()
	p, err := telemetry.Start(context.Background(), telemetry.Config{Version: Version, Instance: "w1", Scrape: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Shutdown(context.Background()) })
	rec, err := telemetry.NewRecorder(telemetry.Options{TracerProvider: p.Tracers, MeterProvider: p.Meters})
	if err != nil {
		t.Fatal(err)
	}
	x := stage(t, rec, telemetry.None(), Options{})
	x.drive()
	text := x.scraped(p.Metrics)
	for _, secret := range []string{"acme", `"s1"`, "call-", hush} {
		if strings.Contains(text, secret) {
			t.Errorf("a metric holds %q", secret)
		}
	}
	for series, want := range map[string]string{
		`toolsearch_search_queries_total{toolsearch_hit="false"}`:                                                 "1",
		`toolsearch_calls_total{toolsearch_call_kind="caller"}`:                                                   "1",
		`toolsearch_calls_total{toolsearch_call_kind="attached"}`:                                                 "1",
		`toolsearch_gateway_breakers{toolsearch_state="open"}`:                                                    "1",
		`toolsearch_gateway_rate_limited_total{toolsearch_route="execute"}`:                                       "1",
		`toolsearch_retries_total{error_type="429",toolsearch_route="execute"}`:                                   "1",
		`toolsearch_stop_duration_seconds_count`:                                                                  "1",
		`toolsearch_hook_duration_seconds_count{toolsearch_decision="allow"}`:                                     "1",
		`toolsearch_model_mistakes_total{toolsearch_verb="search"}`:                                               "1",
		`toolsearch_requests_in_flight{toolsearch_verb="search"}`:                                                 "0",
		`toolsearch_pool_limit{toolsearch_pool="queries",toolsearch_state="running"}`:                             "64",
		`toolsearch_cache_lookups_total{toolsearch_cache="replies",toolsearch_hit="true"}`:                        "1",
		`toolsearch_operations_opened_total{toolsearch_action="connect",toolsearch_surface="link"}`:               "1",
		`toolsearch_operations_opened_total{toolsearch_action="install",toolsearch_surface="card"}`:               "0",
		`toolsearch_operations_settled_total{toolsearch_settled_by="handed_over",toolsearch_surface="link"}`:      "1",
		`toolsearch_operations_settled_total{toolsearch_settled_by="continue",toolsearch_surface="card"}`:         "1",
		`toolsearch_operation_duration_seconds_count{toolsearch_settled_by="continue",toolsearch_surface="card"}`: "1",
		`toolsearch_operation_targets_total{toolsearch_state="initiated",toolsearch_target_kind="connector"}`:     "1",
		`toolsearch_operation_targets_total{toolsearch_state="not_connected",toolsearch_target_kind="connector"}`: "1",
		`toolsearch_operation_targets_total{toolsearch_state="connected",toolsearch_target_kind="mcp"}`:           "0",
		`toolsearch_operation_answers_total{toolsearch_accepted="true",toolsearch_answer="continue"}`:             "1",
		`toolsearch_operation_answers_total{toolsearch_accepted="false",toolsearch_answer="skip"}`:                "1",
		`toolsearch_operation_takeovers_total`:                                                                    "0",
		`toolsearch_operations_open`:                                                                              "0",
		`toolsearch_watch_rounds_total{toolsearch_parked="true"}`:                                                 "1",
		`toolsearch_watch_parked_duration_seconds_sum`:                                                            "1",
		`toolsearch_gateway_rate_limited_total{toolsearch_route="account"}`:                                       "1",
		`toolsearch_accounts_request_duration_seconds_count{toolsearch_route="disconnect"}`:                       "1",
		`toolsearch_accounts_request_duration_seconds_count{error_type="unreachable",toolsearch_route="list"}`:    "2",
		`toolsearch_retries_total{error_type="unreachable",toolsearch_route="accounts"}`:                          "1",
		`toolsearch_worker_ready`:                "1",
		`toolsearch_assemble_tokens_saved_total`: "",
		`toolsearch_entries_total{error_type="INTERRUPTED",toolsearch_connector="tracker",toolsearch_outcome="interrupted"}`:                     "1",
		`toolsearch_entries_total{toolsearch_connector="hosted",toolsearch_outcome="ok"}`:                                                        "1",
		`toolsearch_entries_total{toolsearch_connector="mail",toolsearch_outcome="ok"}`:                                                          "",
		`gen_ai_execute_tool_duration_seconds_count{gen_ai_operation_name="execute_tool",toolsearch_connector="hosted",toolsearch_outcome="ok"}`: "1",
		`messaging_process_duration_seconds_count{error_type="BAD_REQUEST",messaging_destination_template="toolsearch.v1.req.{tenant}.{session}.search",` +
			`messaging_operation_name="process",messaging_system="nats",toolsearch_verb="search"}`: "1",
	} {
		if got, ok := value(text, series); !ok || want != "" && got != want {
			t.Errorf("%s is %q, want %q", series, got, want)
		}
	}
	compareMetrics(t, text)
}

// drive makes each thing happen that is measured, once where that is told apart later.
func (x *theater) drive() {
	t, ctx := x.t, context.Background()
	x.assembled(true)
	x.assembled(true) // answered from memory
	for _, arguments := range []string{`{"queries":["order a thing"]}`, `{"queries":["zebra crossing"]}`, `{"limit":2}`} {
		if _, err := x.session.Search(ctx, x.scope, json.RawMessage(arguments)); err != nil {
			t.Fatal(err)
		}
	}
	fails(t, x.ask(subjects.VerbSearch, `{"scope":1}`))
	if _, err := x.session.Describe(ctx, x.scope, json.RawMessage(`{"names":["mcp__desk__note","nothing"]}`)); err != nil {
		t.Fatal(err)
	}
	x.call(ctx, "call-caller", `[{"name":"mcp__shop__order","arguments":{"count":1}}]`)

	x.gateway.Fault(gatewaytest.Fault{Kind: gatewaytest.RateLimit, Route: "execute", Times: 1})
	for range 2 { // the second attaches
		if out := x.call(ctx, "call-mail", oneMail); out.Batch == nil || out.Batch.SuccessCount != 1 {
			t.Fatalf("%s", out.Raw)
		}
	}
	x.quietHooks()
	x.call(ctx, "call-note", oneNote)
	x.call(ctx, "call-issue", `[{"name":"connectors__tracker__CREATE_ISSUE","arguments":{"title":"1"}}]`)

	gate := gatewaytest.NewGate()
	x.gateway.Fault(gatewaytest.Fault{Kind: gatewaytest.Slow, Route: "execute", Times: 1, Gate: gate})
	called := make(chan *subjects.Called, 1)
	go func() { called <- x.call(ctx, "call-stopped", mailPair) }()
	await(t, gate.Reached(), "the first entry to reach the gateway")
	if _, err := x.session.StopCall(ctx, "call-stopped", ""); err != nil {
		t.Fatal(err)
	}
	gate.Open()
	await(t, called, "the reply to the stopped call")

	x.driveLinking()

	x.gateway.Fault(gatewaytest.Fault{Kind: gatewaytest.Status, Status: 500, Route: "search", Times: 1})
	if _, err := x.session.Search(ctx, x.scope, json.RawMessage(`{"queries":["order a thing"]}`)); err != nil {
		t.Fatal(err)
	}
}

// driveLinking hands a link over, lets a card be parked and left by its user, and has the accounts listed, also while
// the account service fails.
func (x *theater) driveLinking() {
	t := x.t
	x.assembledOn(subjects.SurfaceLink)
	await(t, x.manage("call-link", `{"action":"connect","connectors":["chat"]}`), "the link")
	x.assembledOn(subjects.SurfaceCard)
	x.gateway.Fault(gatewaytest.Fault{Kind: gatewaytest.RateLimit, Route: "account", Times: 1})
	card := x.manage("call-card", `{"action":"connect","connectors":["chat"]}`)
	await(t, x.parked, "the watch to be parked")
	x.answer("call-card", subjects.AnswerContinue, "")
	await(t, card, "the card's call")
	if got, err := x.session.Answer(t.Context(), subjects.AnswerRequest{Operation: "call-card", Answer: subjects.AnswerSkip, Name: "chat"}); err != nil || got.Accepted {
		t.Fatalf("%+v, %v", got, err)
	}
	list, err := x.session.Accounts(t.Context(), "")
	if err != nil || len(list.Accounts) == 0 {
		t.Fatalf("%+v, %v", list, err)
	}
	if got, err := x.session.Disconnect(t.Context(), list.Accounts[0].ConnectionID); err != nil || !got.Disconnected {
		t.Fatalf("%+v, %v", got, err)
	}
	x.service.Fault(gatewaytest.Fault{Kind: gatewaytest.Status, Status: 502}, gatewaytest.Fault{Kind: gatewaytest.Status, Status: 502})
	if got, err := x.session.Accounts(t.Context(), ""); err != nil || got.Refusal == nil {
		t.Fatalf("%+v, %v", got, err)
	}
}

// quietHooks opens a scope whose policy is not asked.
func (x *theater) quietHooks() { x.assembled(false) }

// scraped scrapes until the figures of the queue, which are read beside the work, are there, and the last operation is
// counted, whose watch ends after its user was told.
func (x *theater) scraped(h http.Handler) string {
	x.t.Helper()
	for deadline := time.Now().Add(wait); ; {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		text := w.Body.String()
		open, _ := value(text, "toolsearch_operations_open")
		if _, ok := value(text, "toolsearch_queue_jobs"); ok && open == "0" {
			return text
		}
		if time.Now().After(deadline) {
			x.t.Fatalf("the figures of the queue do not come:\n%s", text)
		}
	}
}

// value is that of one series.
func value(text, series string) (string, bool) {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, series+" "); ok {
			return strings.TrimSpace(rest), true
		}
	}
	return "", false
}

// compareMetrics holds the names and types of a scrape to the list.
func compareMetrics(t *testing.T, text string) {
	t.Helper()
	var lines []string
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, "# TYPE "); ok {
			lines = append(lines, rest)
		}
	}
	slices.Sort(lines)
	got := metricsHead + strings.Join(lines, "")
	if *update {
		if err := os.WriteFile(metricsFile, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(metricsFile)
	if err != nil {
		t.Fatalf("%v; run the test with -update to make it", err)
	}
	if got != string(want) {
		t.Errorf("the metrics are not those of %s; got\n%s", metricsFile, got)
	}
}
