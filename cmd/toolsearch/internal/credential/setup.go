package credential

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"toolsearch/subjects"
	"toolsearch/subjects/roles"
)

// system is the servers' own account. No user of it is made here.
const system = "SYS"

// SetupOptions configure [Setup].
type SetupOptions struct {
	// Root is the root of every subject; empty: [subjects.DefaultRoot].
	Root subjects.Root
	// Bodies also makes keys for users that may use their tenant's bucket of large bodies, and lets them reach it.
	Bodies bool
	// Rotate lists roles whose signing keys are replaced: what the old ones signed is refused as soon as the servers
	// have read the new resolver.conf.
	Rotate []roles.Role
}

// Done tells what [Setup] did.
type Done struct {
	Resolver string   `json:"resolver"` // path of the file for the servers
	Made     []string `json:"made"`     // paths of the key files that are new
	Kept     []string `json:"kept"`     // and of those that were there
}

// Setup makes, in a folder, what a fleet needs: the keys that are missing, and resolver.conf for the servers. It may be
// repeated: keys that are there stay, and the accounts are signed anew with the permissions of this version.
func Setup(dir string, o SetupOptions) (*Done, error) {
	if o.Root == "" {
		o.Root = subjects.DefaultRoot
	}
	if err := o.Root.Validate(); err != nil {
		return nil, fmt.Errorf("credential: SetupOptions.Root: %w", err)
	}
	for _, r := range o.Rotate {
		if !slices.Contains(roles.All(), r) {
			return nil, fmt.Errorf("credential: no role %q; there are %v", string(r), roles.All())
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "keys"), 0o700); err != nil {
		return nil, fmt.Errorf("credential: make the folder of keys: %w", err)
	}
	s := &setup{dir: dir, o: o, done: &Done{Resolver: filepath.Join(dir, "resolver.conf"), Made: []string{}, Kept: []string{}}}
	conf, err := s.resolver()
	if err != nil {
		return nil, err
	}
	return s.done, write(s.done.Resolver, conf, 0o644)
}

type setup struct {
	dir  string
	o    SetupOptions
	done *Done
}

// resolver is the text of resolver.conf.
func (s *setup) resolver() ([]byte, error) {
	operator, operatorID, err := s.pair("operator", nkeys.CreateOperator)
	if err != nil {
		return nil, err
	}
	ids := map[string]string{}
	accounts := append(roles.Accounts(), system)
	for _, account := range accounts {
		if _, ids[account], err = s.pair("account-"+account, nkeys.CreateAccount); err != nil {
			return nil, err
		}
	}
	signed, err := s.operator(operator, operatorID, ids[system])
	if err != nil {
		return nil, err
	}
	var w bytes.Buffer
	fmt.Fprintf(&w, `# Who may do what, by signed credentials. Written by "toolsearch token setup"; it holds no secret.
operator: %s
system_account: %s
resolver: MEMORY
resolver_preload: {
`, signed, ids[system])
	for _, account := range accounts {
		claims, err := s.account(account, ids)
		if err != nil {
			return nil, err
		}
		token, err := claims.Encode(operator)
		if err != nil {
			return nil, fmt.Errorf("credential: sign account %s: %w", account, err)
		}
		fmt.Fprintf(&w, "  # %s\n  %s: %s\n", account, ids[account], token)
	}
	w.WriteString("}\n")
	return w.Bytes(), nil
}

// operatorLine is the line of resolver.conf that holds the operator's token.
var operatorLine = regexp.MustCompile(`(?m)^operator: (\S+)$`)

// operator is the operator's token: the one that resolver.conf holds already, unless it speaks of other keys. A token
// signed anew differs in its time, and a server that finds another operator refuses to reload.
func (s *setup) operator(key nkeys.KeyPair, id, systemID string) (string, error) {
	conf, err := os.ReadFile(s.done.Resolver)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("credential: read the resolver's file: %w", err)
	}
	if line := operatorLine.FindSubmatch(conf); line != nil {
		token := string(line[1])
		c, err := jwt.DecodeOperatorClaims(token)
		if err == nil && c.Subject == id && c.Issuer == id && c.SystemAccount == systemID {
			return token, nil
		}
	}
	c := jwt.NewOperatorClaims(id)
	c.Name, c.SystemAccount = "toolsearch", systemID
	token, err := c.Encode(key)
	if err != nil {
		return "", fmt.Errorf("credential: sign the operator: %w", err)
	}
	return token, nil
}

// account is an account with what passes its border and the scoped signing keys of its roles.
func (s *setup) account(account string, ids map[string]string) (*jwt.AccountClaims, error) {
	c := jwt.NewAccountClaims(ids[account])
	c.Name = account
	if account == system {
		return c, nil
	}
	if account == roles.Service {
		c.Limits.JetStreamLimits = jwt.JetStreamLimits{MemoryStorage: jwt.NoLimit, DiskStorage: jwt.NoLimit,
			Streams: jwt.NoLimit, Consumer: jwt.NoLimit, MaxAckPending: jwt.NoLimit}
	}
	for _, x := range roles.Crossings(s.o.Root, s.o.Bodies) {
		kind := jwt.Service
		if x.Stream {
			kind = jwt.Stream
		}
		if x.From == account {
			c.Exports.Add(&jwt.Export{Name: x.Subject, Subject: jwt.Subject(x.Subject), Type: kind})
		}
		if x.To == account {
			c.Imports.Add(&jwt.Import{Name: x.Subject, Subject: jwt.Subject(x.Subject), Account: ids[x.From], Type: kind})
		}
	}
	for _, r := range roles.All() {
		if r.Account() != account {
			continue
		}
		for _, bodies := range []bool{false, true} {
			if bodies && (!s.o.Bodies || !r.HasBodies()) {
				continue
			}
			scope, err := s.scope(r, bodies, ids[account])
			if err != nil {
				return nil, err
			}
			c.SigningKeys.AddScopedSigner(scope)
		}
	}
	var problems jwt.ValidationResults
	if c.Validate(&problems); problems.IsBlocking(true) {
		return nil, fmt.Errorf("credential: account %s: %w", account, errors.Join(problems.Errors()...))
	}
	return c, nil
}

// scope is what a signing key may sign: users of one role, whose names the server takes from their tags.
func (s *setup) scope(r roles.Role, bodies bool, account string) (*jwt.UserScope, error) {
	p, err := r.Permissions(roles.Names{Root: s.o.Root, Bodies: bodies,
		Tenant: roles.Tag("tenant"), Session: roles.Tag("session"), Host: roles.Tag("host")})
	if err != nil {
		return nil, err
	}
	public, err := s.signingKey(r, bodies, account)
	if err != nil {
		return nil, err
	}
	scope := jwt.NewUserScope()
	scope.Key, scope.Role = public, keyName(r, bodies)
	scope.Template.Permissions.Sub.Allow = p.Subscribe
	if scope.Template.Permissions.Pub.Allow = p.Publish; len(p.Publish) == 0 {
		scope.Template.Permissions.Pub.Deny = jwt.StringList{">"}
	}
	if p.Responses != nil {
		scope.Template.Permissions.Resp = &jwt.ResponsePermission{MaxMsgs: p.Responses.Max, Expires: p.Responses.Expires}
	}
	return scope, nil
}

// signingKey reads or makes the signing key of a role, and returns its public part.
func (s *setup) signingKey(r roles.Role, bodies bool, account string) (string, error) {
	path := KeyFile(s.dir, r, bodies)
	k, err := LoadKey(path)
	switch {
	case err == nil && !slices.Contains(s.o.Rotate, r):
		if k.Root != s.o.Root || k.Account != account || k.Role != r || k.Bodies != bodies {
			return "", fmt.Errorf("credential: %s is the key of %s under root %s in another account; use another folder, or move that file away",
				path, keyName(k.Role, k.Bodies), k.Root)
		}
		s.done.Kept = append(s.done.Kept, path)
	case err == nil, errors.Is(err, fs.ErrNotExist):
		pair, err := nkeys.CreateAccount()
		if err != nil {
			return "", fmt.Errorf("credential: make a signing key: %w", err)
		}
		seed, err := pair.Seed()
		if err != nil {
			return "", err
		}
		k = &Key{Role: r, Bodies: bodies, Root: s.o.Root, Account: account, Seed: string(seed)}
		text, err := json.MarshalIndent(k, "", "  ")
		if err != nil {
			return "", err
		}
		if err := WriteSecret(path, append(text, '\n')); err != nil {
			return "", err
		}
		s.done.Made = append(s.done.Made, path)
	default:
		return "", err
	}
	pair, err := k.pair()
	if err != nil {
		return "", err
	}
	return pair.PublicKey()
}

// pair reads or makes one of the keys that sign accounts.
func (s *setup) pair(name string, create func() (nkeys.KeyPair, error)) (nkeys.KeyPair, string, error) {
	path := filepath.Join(s.dir, "keys", name+".nk")
	seed, err := os.ReadFile(path)
	switch {
	case err == nil:
		s.done.Kept = append(s.done.Kept, path)
	case errors.Is(err, fs.ErrNotExist):
		made, err := create()
		if err != nil {
			return nil, "", fmt.Errorf("credential: make %s: %w", strconv.Quote(name), err)
		}
		if seed, err = made.Seed(); err != nil {
			return nil, "", err
		}
		if err := WriteSecret(path, append(slices.Clone(seed), '\n')); err != nil {
			return nil, "", err
		}
		s.done.Made = append(s.done.Made, path)
	default:
		return nil, "", fmt.Errorf("credential: read a key: %w", err)
	}
	pair, err := nkeys.FromSeed(bytes.TrimSpace(seed))
	if err != nil {
		return nil, "", fmt.Errorf("credential: %s holds no seed", path)
	}
	public, err := pair.PublicKey()
	if err != nil {
		return nil, "", err
	}
	return pair, public, nil
}
