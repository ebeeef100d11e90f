package connectors

import (
	"net/url"
	"strings"
	"testing"
)

func TestResolveOrigin(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		config OriginConfig
		want   string
		wrong  string // part of the error
	}{
		{"nothing configured is no gateway", OriginConfig{}, "", ""},
		{"a scheme alone is no gateway", OriginConfig{Scheme: "ftp"}, "", ""},
		{"explicit", OriginConfig{URL: " https://gw.example.org/ "}, "https://gw.example.org", ""},
		{"explicit wins", OriginConfig{URL: "http://127.0.0.1:8787", Scheme: "ftp", Domain: "example.org"}, "http://127.0.0.1:8787", ""},
		{"with a path", OriginConfig{URL: "https://gw.example.org/base//"}, "https://gw.example.org/base", ""},
		{"host in any case", OriginConfig{URL: "HTTPS://GW.Example.org:443"}, "https://gw.example.org:443", ""},
		{"by domain", OriginConfig{Domain: " example.org/ "}, "https://connector-gateway.example.org", ""},
		{"by domain and scheme", OriginConfig{Scheme: " HTTP ", Domain: "example.org"}, "http://connector-gateway.example.org", ""},
		{"a scheme that is none", OriginConfig{Scheme: "ftp", Domain: "example.org"}, "", "scheme"},
		{"no scheme", OriginConfig{URL: "gw.example.org"}, "", "http"},
		{"a port that is none", OriginConfig{URL: "https://gw.example.org:65536"}, "", "65535"},
		{"no host", OriginConfig{URL: "https://"}, "", "host"},
		{"a secret in it", OriginConfig{URL: "https://user:hunter2@gw.example.org"}, "", "user"},
		{"a query", OriginConfig{URL: "https://gw.example.org/?token=hunter2"}, "", "query"},
		{"not a URL", OriginConfig{URL: "https://hunter2\x7f"}, "", "cannot be read"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			o, err := ResolveOrigin(c.config)
			if o.String() != c.want || (err != nil) != (c.wrong != "") {
				t.Fatalf("got %q, %v", o, err)
			}
			if err != nil && (!strings.Contains(err.Error(), c.wrong) || strings.Contains(err.Error(), "hunter2")) {
				t.Errorf("the error is %q", err)
			}
		})
	}
}

func TestOriginFromEnv(t *testing.T) {
	t.Parallel()
	env := map[string]string{EnvGatewayDomain: "example.org", EnvGatewayScheme: "http"}
	o, err := OriginFromEnv(func(k string) string { return env[k] })
	if err != nil || o.String() != "http://connector-gateway.example.org" {
		t.Errorf("got %q, %v", o, err)
	}
}

func TestOriginCovers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		origin, url string
		want        bool
	}{
		{"https://gw.example.org", "https://gw.example.org/v1", true},
		{"https://gw.example.org", "https://GW.example.org:443/v1", true},
		{"https://gw.example.org:8443", "https://gw.example.org:8443/", true},
		{"https://gw.example.org", "http://gw.example.org/v1", false},
		{"https://gw.example.org", "https://gw.example.org:8443/v1", false},
		{"https://gw.example.org", "https://gw.example.org.evil.example/v1", false},
		{"https://gw.example.org", "https://evil-gw.example.org/v1", false},
		{"https://gw.example.org", "https://gw.example.org@evil.example/v1", false},
		{"http://127.0.0.1:80", "http://127.0.0.1/v1", true},
		{"http://127.0.0.1:80", "http://127.0.0.2/v1", false},
		{"http://[::1]:80", "http://[::1]/v1", true},
	} {
		u, err := url.Parse(c.url)
		if err != nil {
			t.Fatal(err)
		}
		if got := mustOrigin(t, c.origin).covers(u); got != c.want {
			t.Errorf("%s covers %s: got %v", c.origin, c.url, got)
		}
	}
	if (Origin{}).covers(&url.URL{Scheme: "https", Host: "gw.example.org"}) {
		t.Error("no origin covers something")
	}
}
