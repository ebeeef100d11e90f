package connectors

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// The environment variables of [OriginFromEnv].
const (
	EnvGatewayURL    = "CONNECTOR_GATEWAY_URL"
	EnvGatewayScheme = "TOOL_GATEWAY_SCHEME"
	EnvGatewayDomain = "TOOL_GATEWAY_DOMAIN"
)

// Origin is the one place that tokens are sent to. Its zero value is no gateway at all: connectors are then
// invisible. There is no built-in origin, so nothing leaves a machine that was not told where to.
type Origin struct {
	scheme string
	host   string // with its port, if the URL named one
	base   string // the URL that paths are appended to, without a trailing slash
}

// OriginConfig says where the gateway is. URL wins; else the origin is <Scheme>://connector-gateway.<Domain>.
type OriginConfig struct {
	// URL is absolute, http or https, with an optional path and nothing else: no user, query or fragment.
	URL string
	// Scheme is http or https; empty is https.
	Scheme string
	// Domain is the gateway's parent domain; empty is no gateway.
	Domain string
}

// ResolveOrigin turns a configuration into an origin. An empty one is the zero Origin and no error.
func ResolveOrigin(c OriginConfig) (Origin, error) {
	if u := strings.TrimSpace(c.URL); u != "" {
		return ParseOrigin(u)
	}
	domain := strings.Trim(strings.TrimSpace(c.Domain), "/")
	if domain == "" {
		return Origin{}, nil
	}
	scheme := strings.ToLower(strings.TrimSpace(c.Scheme))
	if scheme == "" {
		scheme = "https"
	}
	if scheme != "http" && scheme != "https" {
		return Origin{}, fmt.Errorf("connectors: gateway scheme %q: must be http or https", c.Scheme)
	}
	return ParseOrigin(scheme + "://connector-gateway." + domain)
}

// OriginFromEnv is [ResolveOrigin] over the environment that lookup reads, such as os.Getenv.
func OriginFromEnv(lookup func(string) string) (Origin, error) {
	return ResolveOrigin(OriginConfig{
		URL: lookup(EnvGatewayURL), Scheme: lookup(EnvGatewayScheme), Domain: lookup(EnvGatewayDomain),
	})
}

// ParseOrigin reads an absolute http or https URL. A URL with a user, a query or a fragment is refused: a secret in
// it would end up in logs.
func ParseOrigin(raw string) (Origin, error) {
	u, err := url.Parse(strings.TrimRight(strings.TrimSpace(raw), "/"))
	if err != nil {
		return Origin{}, fmt.Errorf("connectors: the gateway's URL cannot be read: write it as https://host[:port][/path]")
	}
	scheme := strings.ToLower(u.Scheme)
	switch {
	case scheme != "http" && scheme != "https":
		return Origin{}, fmt.Errorf("connectors: the gateway's URL must begin with http:// or https://, got scheme %q", u.Scheme)
	case u.Hostname() == "":
		return Origin{}, fmt.Errorf("connectors: the gateway's URL names no host: write it as https://host[:port][/path]")
	case u.Port() != "" && !isPort(u.Port()):
		return Origin{}, fmt.Errorf("connectors: the gateway's URL has port %s: use 1 to 65535", u.Port())
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return Origin{}, fmt.Errorf("connectors: the gateway's URL must have no user, query or fragment; " +
			"tokens come from the token source")
	}
	host := strings.ToLower(u.Host)
	return Origin{scheme: scheme, host: host, base: scheme + "://" + host + strings.TrimRight(u.EscapedPath(), "/")}, nil
}

// IsZero reports that no gateway is configured.
func (o Origin) IsZero() bool { return o.base == "" }

// String is the origin's URL without a trailing slash.
func (o Origin) String() string { return o.base }

// resolve is the URL of a path below the origin; query may be empty.
func (o Origin) resolve(path, query string) string {
	u := o.base + "/" + path
	if query != "" {
		u += "?" + query
	}
	return u
}

// covers reports whether a token may go to u: the same scheme, host and port, compared after filling in the scheme's
// own port. A look-alike host, another port or a scheme downgrade is another origin.
func (o Origin) covers(u *url.URL) bool {
	if o.IsZero() || u == nil || u.User != nil || !strings.EqualFold(u.Scheme, o.scheme) {
		return false
	}
	own := &url.URL{Host: o.host}
	return strings.EqualFold(u.Hostname(), own.Hostname()) && port(u, o.scheme) == port(own, o.scheme)
}

func isPort(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return err == nil && n > 0
}

func port(u *url.URL, scheme string) string {
	if p := u.Port(); p != "" {
		return p
	}
	if scheme == "http" {
		return "80"
	}
	return "443"
}
