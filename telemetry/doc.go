// Package telemetry is how the product is seen: traces, metrics and logs, and how their context crosses the bus.
//
// It is a leaf of the house: every package may import it and it imports none of them. It decides nothing; what it is
// told it counts, times and joins. Libraries get a [Recorder] by option and never touch OpenTelemetry's globals; without
// one they get [None], which passes trace context on and records nothing. Only a program calls [Start], which reads the
// standard OTEL_* variables, and is silent without them.
//
//	p, err := telemetry.Start(ctx, telemetry.Config{Version: version, Scrape: true})
//	if err != nil {
//		return err
//	}
//	defer p.Shutdown(last) // after the connection to NATS has ended
//	rec, err := telemetry.NewRecorder(telemetry.Options{TracerProvider: p.Tracers, MeterProvider: p.Meters})
//	...
//	w, err := worker.New(nc, worker.Options{Telemetry: rec})
//	admin, err := telemetry.Serve(telemetry.AdminOptions{Address: "127.0.0.1:9464", Metrics: p.Metrics,
//		Ready: func(context.Context) []string { return w.Health().Problems }})
//
// # One trace
//
//	request toolsearch.v1.req.{tenant}.{session}.call            CLIENT    the runtime
//	  process toolsearch.v1.req.{tenant}.{session}.call          CONSUMER  the front; the requester waits, so it is the parent
//	    publish toolsearch.v1.job.{tenant}.{session}             PRODUCER  its context is what the job carries
//	      process toolsearch.v1.job.{tenant}.{session}           CONSUMER  the runner; also linked to the producer
//	        dispatch batch                                       INTERNAL
//	          execute_tool connectors__mail__SEND_EMAIL          INTERNAL  events retry.backoff
//	            request toolsearch.v1.hook.{tenant}.{session}.pre CLIENT   the session's policy
//	            POST                                             CLIENT    one for each attempt at the gateway
//	          execute_tool mcp__tracker__create                  INTERNAL
//	            request toolsearch.v1.host.{tenant}.{host}.call  CLIENT    one for each attempt at the host
//	              process toolsearch.v1.host.{tenant}.{host}.call CONSUMER the host
//	        publish toolsearch.v1.result.{tenant}.{session}.{call} PRODUCER whoever reads events links to it
//
// manage_connections, where it starts something, and what a user's interface asks:
//
//	request toolsearch.v1.req.{tenant}.{session}.connections     CLIENT    the runtime
//	  process toolsearch.v1.req.{tenant}.{session}.connections   CONSUMER  the front; the requester waits
//	    link_accounts                                            INTERNAL  as long as the watch; events target.moved,
//	                                                             watch.parked, watch.unread
//	      POST                                                   CLIENT    asks the gateway for links, once
//	      request toolsearch.v1.host.{tenant}.{host}.call        CLIENT    has a host work on a local server
//	      publish toolsearch.v1.card.{tenant}.{session}.{operation} PRODUCER one for each state of the card
//	request toolsearch.v1.ui.{tenant}.{session}.answer           CLIENT    the interface
//	  process toolsearch.v1.ui.{tenant}.{session}.answer         CONSUMER  linked to the process span above
//	request toolsearch.v1.ui.{tenant}.{session}.accounts         CLIENT    the interface
//	  process toolsearch.v1.ui.{tenant}.{session}.accounts       CONSUMER
//	    GET                                                      CLIENT    the account service; DELETE ends an account
//
// link_accounts lives for minutes where a user takes minutes. It is the child of the request that waits for it. The
// reads of the gateway's accounts, one each second for each app, get no spans, which would hide the rest: they carry the
// context of link_accounts, are measured as any other request, and show up there as events, each once for what is new.
// An operation that another worker takes over begins a new trace there, linked to the process span that opened it. No
// span holds a link for a user.
//
// A job that is handed out again begins a new trace, linked to the producer: nobody waits for it in the old one. A stop
// is linked to the entry that it kept from being sent. Names come from templates; no name holds a tenant, a session or a
// call. A search has a child search_tools.
//
// A span's status is an error where the service failed (INTERNAL, UNAVAILABLE, DEADLINE_EXCEEDED) or an entry did (error,
// unknown, abandoned). What a requester did wrong has error.type and no status, and so has an entry that a stop kept
// from being sent: that is what was asked for. link_accounts is an error where a target failed, not where its user let
// the time pass.
//
// # Metrics
//
// Names as Prometheus has them; a histogram adds _bucket, _sum and _count. Labels are in braces, error_type is absent
// where nothing failed. Buckets are explicit, and carry exemplars for whoever asks for OpenMetrics.
//
//	requests
//	messaging_process_duration_seconds             histogram {messaging_destination_template, messaging_operation_name,
//	                                               messaging_system, toolsearch_verb, error_type}: rate, errors, duration
//	                                               of each verb (assemble, search, describe, call,
//	                                               connections, ...) and of job; error_type is the
//	                                               service error's code, for a job the verdict failed or lost
//	toolsearch_request_wait_duration_seconds       histogram {toolsearch_verb}: from arrival to a place
//	toolsearch_requests_in_flight                  gauge {toolsearch_verb}: waiting or running
//	toolsearch_pool_tasks, toolsearch_pool_limit   gauges {toolsearch_pool: queries, calls, runners; toolsearch_state:
//	                                               running, waiting}: queue depth and in flight, and their limits
//	toolsearch_model_mistakes_total                {toolsearch_verb}: replies that tell a model of its mistake
//	toolsearch_replies_unsent_total                {toolsearch_verb}
//
//	search and catalogs
//	toolsearch_search_duration_seconds             histogram {toolsearch_remote: none, ok, failed}
//	toolsearch_search_queries_total                {toolsearch_hit}: "false" are queries without a hit
//	toolsearch_search_results                      histogram: tools found for a query
//	toolsearch_describe_tools_total                {toolsearch_hit}
//	toolsearch_assemble_tokens_deferred_total      tokens of definitions put behind the bridge
//	toolsearch_assemble_tokens_saved_total         the same less what the bridge's own definitions take
//	toolsearch_catalog_build_duration_seconds      histogram; its _count is the churn of catalogs
//	toolsearch_catalog_tools                       histogram: tools of a catalog that was indexed
//	toolsearch_cache_lookups_total                 {toolsearch_cache: indexes, scopes, replies; toolsearch_hit}
//	toolsearch_cache_size_bytes, _cache_limit_bytes, _cache_entries   gauges {toolsearch_cache}; index bytes are those of indexes
//
//	calls and entries
//	toolsearch_calls_total                         {toolsearch_call_kind: caller, hosted, batch, attached}
//	toolsearch_entries_total                       {toolsearch_outcome: ok, error, interrupted, unknown, abandoned;
//	                                               error_type: the entry's code; toolsearch_connector}
//	gen_ai_execute_tool_duration_seconds           histogram {gen_ai_operation_name, toolsearch_outcome, error_type,
//	                                               toolsearch_connector}: entries that were sent, with their retries
//	toolsearch_stop_duration_seconds               histogram: from a stop to INTERRUPTED
//	toolsearch_hook_duration_seconds               histogram {toolsearch_decision: allow, deny, rewrite, none}
//	toolsearch_runs_total                          {toolsearch_verdict: done, returned, lost, failed}
//	toolsearch_takeovers_total                     runs that found their predecessor gone
//	toolsearch_calls_abandoned_total               calls given up
//	toolsearch_job_deliveries_total                {toolsearch_redelivered}
//
//	gateway
//	toolsearch_retries_total                       {toolsearch_route: search, schemas, execute, connections, list, account,
//	                                               host, accounts; error_type}
//	toolsearch_gateway_attempt_duration_seconds    histogram {toolsearch_route, error_type}
//	toolsearch_gateway_rate_limited_total          {toolsearch_route}: answers 429
//	toolsearch_gateway_breakers                    gauge {toolsearch_state: open, half_open}: tenants
//	toolsearch_gateway_breaker_transitions_total   {toolsearch_state: closed, open, half_open}
//	toolsearch_gateway_dropped_total               {toolsearch_route}
//	http_client_request_duration_seconds           histogram, of otelhttp
//
//	connections
//	toolsearch_operations_opened_total             {toolsearch_action: connect, reconnect, install, enable, authorize;
//	                                               toolsearch_surface: link, card}
//	toolsearch_operations_settled_total            {toolsearch_settled_by: all_resolved, continue, deadline, interrupt,
//	                                               handed_over; toolsearch_surface}
//	toolsearch_operation_duration_seconds          histogram {toolsearch_settled_by, toolsearch_surface}: from the opening
//	                                               to the end, whichever workers watched
//	toolsearch_operation_targets_total             {toolsearch_target_kind: connector, mcp; toolsearch_state: connected,
//	                                               initiated, skipped, failed, expired, not_connected}: as they stand at
//	                                               the end; initiated are links that were handed over
//	toolsearch_operation_answers_total             {toolsearch_answer: skip, continue, retry; toolsearch_accepted}
//	toolsearch_operation_takeovers_total           operations whose watcher was gone, or had handed them back
//	toolsearch_operations_open                     gauge: those that this worker watches
//	toolsearch_watch_rounds_total                  {toolsearch_parked}: rounds of reads; "true" are those cut by a 429.
//	                                               The reads themselves are the gateway's route account
//	toolsearch_watch_parked_duration_seconds       histogram: how long a watch waits after a 429. The rate of its sum is
//	                                               how many watches are parked
//	toolsearch_accounts_request_duration_seconds   histogram {toolsearch_route: list, disconnect, rename; error_type:
//	                                               signed_out, refused, unreachable, unclear, canceled}: the account
//	                                               service; unreachable and unclear are its failures
//
//	the queue of calls (the same on every worker: take the maximum, not the sum)
//	toolsearch_queue_jobs, toolsearch_queue_limit  gauges: jobs in the stream, and its bound if it has one
//	toolsearch_queue_pending, _queue_ack_pending, _queue_redelivered   gauges, over all tenants' consumers
//	toolsearch_queue_oldest_age_seconds            gauge: what is stuck
//	toolsearch_dead_letters                        gauge: kept for an operator
//
//	the bus and the process
//	toolsearch_worker_ready, toolsearch_nats_connected   gauges, 1 or 0
//	toolsearch_nats_reconnects_total, toolsearch_nats_disconnects_total, toolsearch_nats_slow_consumers_total,
//	toolsearch_nats_errors_total
//	toolsearch_nats_messages_total, toolsearch_nats_io_bytes_total   {toolsearch_direction: in, out}
//	toolsearch_telemetry_export_failures_total     {toolsearch_signal: traces, logs}
//	toolsearch_build_info                          gauge {version, revision, go_version}
//	go_*                                           of the Go runtime, by OpenTelemetry's conventions
//	target_info                                    gauge with the resource's attributes
//
// testdata/metrics.txt lists what a worker that has been driven shows; dashboards and alert rules are checked against it.
//
// # Invariants
//
//   - A tenant, a session or a call is in no span name and in no metric. A connector's name, which a model may invent, is
//     a label only once the connector has answered, and at most 100 are.
//   - Arguments, results and the text of queries are recorded only when [Capture] is switched on, then capped and with
//     what looks like a secret taken out. Logs never hold one: [NewLogger] takes them out of every attribute.
//   - Baggage stays on the bus: a request to the gateway carries traceparent and tracestate and nothing else.
//   - The admin server is off without an address, and profiles are for callers on the same machine only.
package telemetry
