package telemetry

import (
	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

// Scope is the name of the instrumentation: of its tracer, its meter and its logger.
const Scope = "toolsearch"

// SchemaURL is the version of the conventions that the messaging, HTTP and error attributes follow.
const SchemaURL = semconv.SchemaURL

// System is the messaging system. The conventions have no well-known value for NATS and allow a custom one.
const System = "nats"

// The attributes of generative AI: repository open-telemetry/semantic-conventions-genai, release v0.1.0 (development),
// pages docs/gen-ai/gen-ai-spans.md and docs/gen-ai/execute-tool.md. The Go packages of the conventions have none of
// them since v1.42.0, so they stand here.
const (
	GenAIOperationNameKey     = attribute.Key("gen_ai.operation.name")
	GenAIConversationIDKey    = attribute.Key("gen_ai.conversation.id")
	GenAIToolNameKey          = attribute.Key("gen_ai.tool.name")
	GenAIToolTypeKey          = attribute.Key("gen_ai.tool.type")
	GenAIToolCallIDKey        = attribute.Key("gen_ai.tool.call.id")
	GenAIToolCallArgumentsKey = attribute.Key("gen_ai.tool.call.arguments") // opt-in: see Capture
	GenAIToolCallResultKey    = attribute.Key("gen_ai.tool.call.result")    // opt-in: see Capture
)

// The values of [GenAIOperationNameKey] and [GenAIToolTypeKey] that are used here. A tool that runs on the agent's side
// of the model's API is an extension.
const (
	operationExecuteTool = "execute_tool"
	operationRetrieval   = "retrieval"
	toolTypeExtension    = "extension"
)

// The attributes of the Model Context Protocol: same repository and release, page docs/mcp/mcp.md (development). A tool
// host that speaks MCP sets them on its own client spans; the context then goes into params._meta.traceparent.
const (
	MCPMethodNameKey      = attribute.Key("mcp.method.name")
	MCPSessionIDKey       = attribute.Key("mcp.session.id")
	MCPProtocolVersionKey = attribute.Key("mcp.protocol.version")
	JSONRPCRequestIDKey   = attribute.Key("jsonrpc.request.id")
)

// The attributes of this product's own. Those that say so also stand on metrics; their values are few.
const (
	VerbKey         = attribute.Key("toolsearch.verb")          // metrics: assemble, search, describe, call, ..., job
	PoolKey         = attribute.Key("toolsearch.pool")          // metrics: queries, calls, runners
	StateKey        = attribute.Key("toolsearch.state")         // metrics: running, waiting; open, half_open; of a target
	CacheKey        = attribute.Key("toolsearch.cache")         // metrics: indexes, scopes, replies
	HitKey          = attribute.Key("toolsearch.hit")           // metrics: true, false
	RemoteKey       = attribute.Key("toolsearch.remote")        // metrics: none, ok, failed: the gateway's part of a search
	CallKindKey     = attribute.Key("toolsearch.call.kind")     // metrics: caller, hosted, batch, attached
	OutcomeKey      = attribute.Key("toolsearch.outcome")       // metrics: ok, error, interrupted, unknown, abandoned
	ConnectorKey    = attribute.Key("toolsearch.connector")     // metrics: a connector that has answered, hosted, other
	RouteKey        = attribute.Key("toolsearch.route")         // metrics: search, schemas, execute, ..., host
	DecisionKey     = attribute.Key("toolsearch.decision")      // metrics: allow, deny, rewrite, none
	VerdictKey      = attribute.Key("toolsearch.verdict")       // metrics: done, returned, lost, failed
	RedeliveredKey  = attribute.Key("toolsearch.redelivered")   // metrics: true, false
	SignalKey       = attribute.Key("toolsearch.signal")        // metrics: traces, logs
	DirectionKey    = attribute.Key("toolsearch.direction")     // metrics: in, out
	ActionKey       = attribute.Key("toolsearch.action")        // metrics: connect, reconnect, install, enable, authorize
	SurfaceKey      = attribute.Key("toolsearch.surface")       // metrics: link, card
	SettledByKey    = attribute.Key("toolsearch.settled_by")    // metrics: all_resolved, continue, deadline, interrupt, handed_over
	TargetKindKey   = attribute.Key("toolsearch.target.kind")   // metrics: connector, mcp
	AnswerKey       = attribute.Key("toolsearch.answer")        // metrics: skip, continue, retry
	AcceptedKey     = attribute.Key("toolsearch.accepted")      // metrics: true, false
	ParkedKey       = attribute.Key("toolsearch.parked")        // metrics: true, false
	queueWaitKey    = attribute.Key("toolsearch.queue.wait")    // seconds
	batchSizeKey    = attribute.Key("toolsearch.batch.size")    // entries
	takeoversKey    = attribute.Key("toolsearch.takeovers")     // runners found gone
	generationKey   = attribute.Key("toolsearch.generation")    // of a call that an operator reopened
	entryIndexKey   = attribute.Key("toolsearch.entry.index")   // of a batch
	attemptsKey     = attribute.Key("toolsearch.attempts")      // of an entry
	queryTermsKey   = attribute.Key("toolsearch.query.count")   // of a search
	queryTextKey    = attribute.Key("toolsearch.query.text")    // opt-in: see Capture
	resultsKey      = attribute.Key("toolsearch.results.count") // of a search
	withoutHitKey   = attribute.Key("toolsearch.queries.without_hit")
	catalogSizeKey  = attribute.Key("toolsearch.catalog.size")   // tools
	catalogKey      = attribute.Key("toolsearch.catalog.digest") // names the catalog; no content
	mistakeKey      = attribute.Key("toolsearch.model.mistake")  // the reply tells the model of its mistake
	tokensSavedKey  = attribute.Key("toolsearch.tokens.saved")   // of an assemble
	takenOverKey    = attribute.Key("toolsearch.taken_over")     // an operation whose watcher was gone
	targetsKey      = attribute.Key("toolsearch.targets.count")  // of an operation
	unresolvedKey   = attribute.Key("toolsearch.targets.open")   // not connected and not skipped when it settled
	readsKey        = attribute.Key("toolsearch.watch.reads")    // questions after the state of a target
	parkedForKey    = attribute.Key("toolsearch.watch.parked")   // seconds of waiting that the gateway asked for
	fromKey         = attribute.Key("from")                      // of the event target.moved
	toKey           = attribute.Key("to")                        // of the event target.moved
	linkKey         = attribute.Key("toolsearch.link")           // creation, stop, operation
	backoffDelayKey = attribute.Key("delay")                     // of the event retry.backoff, seconds
	backoffTryKey   = attribute.Key("attempt")                   // of the event retry.backoff
	backoffWhyKey   = attribute.Key("reason")                    // of the event retry.backoff
)

// errorType is the attribute of what went wrong: a code from a closed set, never a text.
func errorType(code string) attribute.KeyValue { return semconv.ErrorTypeKey.String(code) }
