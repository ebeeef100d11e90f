package credential

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"toolsearch/subjects"
	"toolsearch/subjects/roles"
)

// KeyFile is where [Setup] keeps the signing key of a role in a fleet's folder.
func KeyFile(dir string, r roles.Role, bodies bool) string {
	return filepath.Join(dir, "keys", keyName(r, bodies)+".json")
}

func keyName(r roles.Role, bodies bool) string {
	if bodies {
		return string(r) + "-bodies"
	}
	return string(r)
}

// Key is a scoped signing key: it mints users of one role, for whichever names.
type Key struct {
	Role   roles.Role    `json:"role"`
	Bodies bool          `json:"bodies,omitempty"`
	Root   subjects.Root `json:"root"`
	// Account is the public key of the account in which the key counts.
	Account string `json:"account"`
	Seed    string `json:"seed"`
}

// LoadKey reads a signing key's file.
func LoadKey(path string) (*Key, error) {
	p, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("credential: read a signing key, which `toolsearch token setup` makes and --key names: %w", err)
	}
	k := new(Key)
	if err := json.Unmarshal(p, k); err != nil {
		// The decoder's own words may quote what stands in the file.
		return nil, fmt.Errorf("credential: %s is no signing key; use a file that `toolsearch token setup` made", path)
	}
	if _, err := k.pair(); err != nil || !nkeys.IsValidPublicAccountKey(k.Account) {
		return nil, fmt.Errorf("credential: %s holds no seed of an account's signing key", path)
	}
	return k, nil
}

func (k *Key) pair() (nkeys.KeyPair, error) {
	pair, err := nkeys.FromSeed([]byte(k.Seed))
	if err != nil {
		return nil, err
	}
	if pub, err := pair.PublicKey(); err != nil || !nkeys.IsValidPublicAccountKey(pub) {
		return nil, errors.New("credential: not an account's key")
	}
	return pair, nil
}

// Grant says whose credentials are minted and until when.
type Grant struct {
	// Tenant, Session and Host are tokens; those that the role needs (see [roles.Role.Needs]) and no others are set.
	Tenant, Session, Host string
	// Expires ends the credentials; the zero time: never.
	Expires time.Time
}

// Mint makes a new user and returns its credentials file: the signed token and the user's seed. They are kept nowhere.
func (k *Key) Mint(g Grant) ([]byte, error) {
	names := roles.Names{Root: k.Root, Tenant: g.Tenant, Session: g.Session, Host: g.Host, Bodies: k.Bodies}
	if _, err := k.Role.Permissions(names); err != nil {
		return nil, err
	}
	claims, seed, err := newUser()
	if err != nil {
		return nil, err
	}
	title := []string{string(k.Role)}
	for _, need := range k.Role.Needs() {
		v := names.Name(need)
		if !subjects.ValidToken(v) {
			return nil, fmt.Errorf("credential: %s %q is no token", need, v) // a template is none either
		}
		title = append(title, v)
		// Not by Tags.Add, which writes lower case: tenants differ by case.
		claims.Tags = append(claims.Tags, need+":"+v)
	}
	claims.Name = strings.Join(title, " ")
	claims.IssuerAccount = k.Account
	claims.SetScoped(true)
	if !g.Expires.IsZero() {
		claims.Expires = g.Expires.Unix()
	}
	signer, err := k.pair()
	if err != nil {
		return nil, err
	}
	token, err := claims.Encode(signer)
	if err != nil {
		return nil, fmt.Errorf("credential: sign: %w", err)
	}
	return jwt.FormatUserConfig(token, seed)
}

func newUser() (*jwt.UserClaims, []byte, error) {
	user, err := nkeys.CreateUser()
	if err != nil {
		return nil, nil, fmt.Errorf("credential: make a user's key: %w", err)
	}
	public, err := user.PublicKey()
	if err != nil {
		return nil, nil, err
	}
	seed, err := user.Seed()
	if err != nil {
		return nil, nil, err
	}
	return jwt.NewUserClaims(public), seed, nil
}
