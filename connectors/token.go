package connectors

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"toolsearch/subjects"
)

// Tokens is where a tenant's bearer token comes from. It is asked before every single attempt, and the answer is kept
// nowhere: a token that was renewed or withdrawn counts from the next attempt on.
//
//   - "" and no error: the tenant is signed out. Connectors are invisible to it.
//   - an error that wraps [ErrNoToken]: the tenant is signed in, but its token ran out and cannot be renewed.
//   - an error that wraps [ErrNotSetUp]: the tenant can use connectors once it has set them up.
//   - any other error: the source could not be asked now; that may pass.
//
// An implementation is safe for concurrent use, and its errors never hold a token.
type Tokens interface {
	Token(ctx context.Context, tenant string) (string, error)
}

// The conditions that a [Tokens] tells apart from a source that is merely out of reach.
var (
	// ErrNoToken: signed in, and yet there is no token; the user must sign in again.
	ErrNoToken = errors.New("connectors: no valid token for this tenant: the user must sign in again")
	// ErrNotSetUp: connectors are not set up for this tenant yet.
	ErrNotSetUp = errors.New("connectors: not set up for this tenant yet")
)

// errSignedOut is the cause of an error for a tenant without a token.
var errSignedOut = errors.New("connectors: this tenant is signed out")

// maxTokenFile bounds a token file: a token is a line, not a document.
const maxTokenFile = 64 << 10

// Static is a fixed table of tokens by tenant; a tenant that is not in it is signed out.
type Static map[string]string

// Token implements [Tokens].
func (s Static) Token(_ context.Context, tenant string) (string, error) { return s[tenant], nil }

// Shared is one token for every tenant: a single user's own machine. Where tenants are different people, use another
// source, for they would all act as the same account.
type Shared string

// Token implements [Tokens].
func (s Shared) Token(context.Context, string) (string, error) { return string(s), nil }

// Env reads tokens from environment variables: <Name>_<tenant>, with the tenant spelled exactly as it is.
type Env struct {
	Name string
	// Shared lets a tenant without a variable of its own use <Name>; see [Shared] for when that is right.
	Shared bool
	// Lookup replaces os.Getenv.
	Lookup func(string) string
}

// Token implements [Tokens].
func (e Env) Token(_ context.Context, tenant string) (string, error) {
	get := e.Lookup
	if get == nil {
		get = os.Getenv
	}
	if t := strings.TrimSpace(get(e.Name + "_" + tenant)); t != "" || !e.Shared {
		return t, nil
	}
	return strings.TrimSpace(get(e.Name)), nil
}

// Dir is a folder with a file per tenant, named as the tenant, that holds its token; white space around it is
// dropped. The file is read at every attempt, so a replaced file (also by the symbolic links of a mounted secret)
// counts at once. No file, or an empty one, is signed out.
type Dir string

// Token implements [Tokens].
func (d Dir) Token(_ context.Context, tenant string) (string, error) {
	p, err := readTenantFile(string(d), tenant, "")
	return strings.TrimSpace(string(p)), err
}

// readTenantFile reads <dir>/<tenant><suffix>; a missing file is empty. The tenant must be a subject token, so it
// cannot climb out of the folder.
func readTenantFile(dir, tenant, suffix string) ([]byte, error) {
	if !subjects.ValidToken(tenant) {
		return nil, fmt.Errorf("connectors: tenant %q cannot name a token file: want 1 to %d of A-Z a-z 0-9 _ -",
			tenant, subjects.MaxToken)
	}
	f, err := os.Open(filepath.Join(dir, tenant+suffix))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("connectors: token file of tenant %s: %w", tenant, err)
	}
	defer f.Close()
	p, err := io.ReadAll(io.LimitReader(f, maxTokenFile+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("connectors: token file of tenant %s: %w", tenant, err)
	case len(p) > maxTokenFile:
		return nil, fmt.Errorf("connectors: token file of tenant %s is over %d bytes: it must hold one token",
			tenant, maxTokenFile)
	}
	return p, nil
}

// bearer checks that a token can stand in a header. The error does not show it.
func bearer(token string) error {
	for i := range len(token) {
		if c := token[i]; c <= ' ' || c >= 0x7f {
			return errors.New("the token holds a character that cannot stand in a header: write it on one line without spaces")
		}
	}
	return nil
}

var (
	_ Tokens = Static(nil)
	_ Tokens = Shared("")
	_ Tokens = Env{}
	_ Tokens = Dir("")
)
