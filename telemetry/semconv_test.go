package telemetry_test

import (
	"testing"

	"go.opentelemetry.io/otel/attribute"
	last "go.opentelemetry.io/otel/semconv/v1.41.0" // the last package that has these keys
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"toolsearch/telemetry"
)

// The keys that stand here because the conventions' package has them no more are spelled as it spelled them.
func TestOwnKeysAreTheConventions(t *testing.T) {
	t.Parallel()
	for own, want := range map[attribute.Key]attribute.Key{
		telemetry.GenAIOperationNameKey:     last.GenAIOperationNameKey,
		telemetry.GenAIConversationIDKey:    last.GenAIConversationIDKey,
		telemetry.GenAIToolNameKey:          last.GenAIToolNameKey,
		telemetry.GenAIToolTypeKey:          last.GenAIToolTypeKey,
		telemetry.GenAIToolCallIDKey:        last.GenAIToolCallIDKey,
		telemetry.GenAIToolCallArgumentsKey: last.GenAIToolCallArgumentsKey,
		telemetry.GenAIToolCallResultKey:    last.GenAIToolCallResultKey,
		telemetry.MCPMethodNameKey:          last.McpMethodNameKey,
		telemetry.MCPSessionIDKey:           last.McpSessionIDKey,
		telemetry.MCPProtocolVersionKey:     last.McpProtocolVersionKey,
		telemetry.JSONRPCRequestIDKey:       last.JSONRPCRequestIDKey,
	} {
		if own != want {
			t.Errorf("%s, want %s", own, want)
		}
	}
	if telemetry.SchemaURL != semconv.SchemaURL {
		t.Errorf("schema %s", telemetry.SchemaURL)
	}
}
