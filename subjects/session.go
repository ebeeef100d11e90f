package subjects

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// sessionMemory is how many assemble requests a session remembers, to make again a scope that expired.
const sessionMemory = 4

// Session is the client of one session of one tenant. It remembers the last assemble requests (their tools are the
// caller's bytes, not copies) so that a scope or a catalog that expired is assembled again without the caller's help.
// It is safe for concurrent use.
type Session struct {
	c               *Client
	tenant, session string

	mu     sync.Mutex
	known  []assembled // oldest first
	streak string      // searches since the last describe or call, as the last reply told them
}

type assembled struct {
	scope, catalog string
	request        AssembleRequest
}

// Tenant is the session's tenant, as a token.
func (s *Session) Tenant() string { return s.tenant }

// ID is the session's own id, as a token.
func (s *Session) ID() string { return s.session }

// Assembled is the answer of assemble.
type Assembled struct {
	AssembleReply
	// Raw is the reply's body as it came. The definitions in Tools are slices of the same bytes, equal to what the
	// request held.
	Raw []byte
}

// Found is the answer of tool_search.
type Found struct {
	SearchReply
	// Raw is exactly what to hand to the model, also where Mistake is set.
	Raw []byte
	// Mistake is set where the model's arguments could not be answered.
	Mistake *ToolError
}

// Described is the answer of tool_describe.
type Described struct {
	DescribeReply
	// Raw is exactly what to hand to the model, also where Mistake is set.
	Raw []byte
	// Mistake is set where the model's arguments could not be answered.
	Mistake *ToolError
}

// Assemble turns a session's tools into what its model should see, and a scope to search, describe and call in. A
// request that names a catalog which expired is sent again with its tools, where this session had them.
func (s *Session) Assemble(ctx context.Context, r *AssembleRequest) (*Assembled, error) {
	if r == nil {
		return nil, errors.New("subjects: Assemble needs a request")
	}
	ctx, cancel := within(ctx, s.c.opts.Timeout)
	defer cancel()
	out, err := s.assemble(ctx, r)
	if errors.Is(err, &Error{Code: CodeCatalogNotFound}) {
		if tools := s.toolsOf(r.Catalog); tools != nil {
			again := *r
			again.Catalog, again.Tools = "", tools
			out, err = s.assemble(ctx, &again)
		}
	}
	return out, err
}

func (s *Session) assemble(ctx context.Context, r *AssembleRequest) (*Assembled, error) {
	body, err := AppendAssembleRequest(nil, r)
	if err != nil {
		return nil, err
	}
	a, err := s.read(ctx, VerbAssemble, body)
	if err != nil {
		return nil, err
	}
	out := &Assembled{Raw: a.body}
	if err := decodeReply(a.body, &out.AssembleReply); err != nil {
		return nil, err
	}
	s.remember(assembled{scope: out.Scope, catalog: out.Catalog, request: *r})
	return out, nil
}

// Search answers the model's tool_search. arguments is what the model wrote; see [ModelArguments]. The session counts its
// searches since the last describe or call, so that a model which searches without end is told so; see [SearchStreak].
func (s *Session) Search(ctx context.Context, scope Scope, arguments json.RawMessage) (*Found, error) {
	ctx, cancel := within(ctx, s.c.opts.Timeout)
	defer cancel()
	a, err := s.bridge(ctx, VerbSearch, scope, arguments)
	if err != nil {
		return nil, err
	}
	if streak := a.header.Get(HeaderSearchStreak); streak != "" { // none is on the answer to a mistake
		s.setStreak(streak)
	}
	out := &Found{Raw: a.body}
	out.Mistake, err = decodeBridge(a.body, &out.SearchReply)
	return out, err
}

// Describe answers the model's tool_describe. arguments is what the model wrote; see [ModelArguments].
func (s *Session) Describe(ctx context.Context, scope Scope, arguments json.RawMessage) (*Described, error) {
	ctx, cancel := within(ctx, s.c.opts.Timeout)
	defer cancel()
	s.setStreak("")
	a, err := s.bridge(ctx, VerbDescribe, scope, arguments)
	if err != nil {
		return nil, err
	}
	out := &Described{Raw: a.body}
	out.Mistake, err = decodeBridge(a.body, &out.DescribeReply)
	return out, err
}

// bridge sends what the model wrote.
func (s *Session) bridge(ctx context.Context, verb Verb, scope Scope, arguments json.RawMessage) (a *answer, err error) {
	s.mu.Lock()
	streak := s.streak
	s.mu.Unlock()
	err = s.scoped(ctx, scope, func(scope Scope) error {
		body, err := AppendBridgeRequest(nil, &BridgeRequest{Scope: scope, Arguments: arguments, SearchStreak: streak})
		if err != nil {
			return err
		}
		a, err = s.read(ctx, verb, body)
		return err
	})
	return a, err
}

func (s *Session) setStreak(streak string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.streak = streak
}

// scoped runs do, and once more in a scope that was assembled again where the first one is gone and this session
// knows how it was made.
func (s *Session) scoped(ctx context.Context, scope Scope, do func(Scope) error) error {
	err := do(scope)
	gone := errors.Is(err, &Error{Code: CodeScopeNotFound}) || errors.Is(err, &Error{Code: CodeCatalogNotFound})
	if scope.Inline != nil || !gone {
		return err
	}
	r, ok := s.requestOf(scope.Handle)
	if !ok {
		return err
	}
	renewed, again := s.Assemble(ctx, &r)
	if again != nil {
		return errors.Join(err, again)
	}
	return do(Handle(renewed.Scope))
}

// ask puts a question that may have an effect.
func (s *Session) ask(ctx context.Context, verb Verb, h nats.Header, body []byte, patience time.Duration) (*answer, error) {
	q := s.question(verb, body)
	q.header, q.patience = h, patience
	return s.c.ask(ctx, q)
}

// read puts a question that changes nothing and may be put twice.
func (s *Session) read(ctx context.Context, verb Verb, body []byte) (*answer, error) {
	q := s.question(verb, body)
	q.again = s.c.opts.AskAgain
	return s.c.ask(ctx, q)
}

func (s *Session) question(verb Verb, body []byte) *question {
	return &question{tenant: s.tenant, subject: s.c.opts.Root.Request(s.tenant, s.session, verb), verb: verb, body: body}
}

func (s *Session) remember(a assembled) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known = slices.DeleteFunc(s.known, func(k assembled) bool { return k.scope == a.scope })
	if a.request.Tools == nil {
		for _, k := range s.known {
			if k.catalog == a.catalog && k.request.Tools != nil { // keep the tools as long as a scope over them
				a.request.Tools, a.request.Catalog = k.request.Tools, ""
				break
			}
		}
	}
	if s.known = append(s.known, a); len(s.known) > sessionMemory {
		s.known = slices.Delete(s.known, 0, 1)
	}
}

func (s *Session) requestOf(scope string) (AssembleRequest, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.known {
		if k.scope == scope {
			return k.request, true
		}
	}
	return AssembleRequest{}, false
}

func (s *Session) toolsOf(catalog string) json.RawMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.known {
		if k.catalog == catalog && k.request.Tools != nil {
			return k.request.Tools
		}
	}
	return nil
}

// decodeBridge reads a reply that may be the model's mistake.
func decodeBridge(body []byte, v any) (*ToolError, error) {
	if m := mistake(body); m != nil {
		return m, nil
	}
	return nil, decodeReply(body, v)
}

// mistake reads {"error": "<text>", ...}, nil where body is something else. The service writes error first.
func mistake(body []byte) *ToolError {
	if !bytes.HasPrefix(body, []byte(`{"error"`)) {
		return nil
	}
	var m struct {
		Error *string `json:"error"`
	}
	if json.Unmarshal(body, &m) != nil || m.Error == nil {
		return nil
	}
	return &ToolError{Message: *m.Error}
}

func decodeReply(body []byte, v any) error {
	if err := json.Unmarshal(body, v); err != nil {
		return &Error{Code: CodeInternal, Message: "the service's reply is not of the contract", Err: err}
	}
	return nil
}
