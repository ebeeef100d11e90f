package subjects_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
	"toolsearch/subjects"
)

func TestToken(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, id, want string }{
		{"a token stays", "kanban-Task_7", "kanban-Task_7"},
		{"64 characters stay", strings.Repeat("a", 64), strings.Repeat("a", 64)},
		{"an address is encoded", "ada@example.com", "b64-YWRhQGV4YW1wbGUuY29t"},
		{"no padding and the url alphabet", "\xff\xfe", "b64-__4"},
		{"45 bytes are the longest encoded", strings.Repeat("é", 22) + "!", "b64-" + strings.Repeat("w6nDqcOp", 7) + "w6kh"},
		{"longer is hashed", strings.Repeat("a", 65), "sha-635361c48bb9eab14198e76ea8ab7f1a41685d6a"},
		{"nothing is hashed", "", "sha-e3b0c44298fc1c149afbf4c8996fb92427ae41e4"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if got := subjects.Token(tc.id); got != tc.want {
				t.Errorf("Token(%q) = %q, want %q", tc.id, got, tc.want)
			}
		})
	}
}

func TestTokenAlwaysValid(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.OneOf(rapid.String(), rapid.StringMatching(`[A-Za-z0-9_.*> -]{0,80}`)).Draw(t, "id")
		token := subjects.Token(id)
		if !subjects.ValidToken(token) {
			t.Fatalf("Token(%q) = %q is no token", id, token)
		}
		if subjects.ValidToken(id) != (token == id) {
			t.Fatalf("Token(%q) = %q: an id changes if and only if it is no token", id, token)
		}
	})
}

func TestValidToken(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", ".", "*", ">", "a b", "a.b", "é", "a\x00", strings.Repeat("a", 65)} {
		if subjects.ValidToken(bad) {
			t.Errorf("ValidToken(%q) = true", bad)
		}
	}
}
