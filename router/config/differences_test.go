package config

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

const compared = `
log: {access: [{to: file, path: /var/log/a}]}
vips:
  - {address: "10.9.9.1:80", interfaces: [eth0], routes: [{match: {host: a.test, path_regex: "^/x", headers: [{name: X-A, regex: "b+"}]}, rewrite: {host: o}, pool: a}, {pool: b}]}
  - {address: "10.9.9.2:443", interfaces: [eth0], protocol: quic, routes: [{match: {sni: a.test}, pool: q}]}
pools:
  a: {health: {path: /up}, surrogates: [{name: a1, address: "10.0.0.1:80"}, {name: a2, address: "10.0.0.2:80"}]}
  b:
    policy: nearest
    nearest: [{prefix: 10.0.0.0/8, surrogates: [b1]}]
    discover: [{dns: b.test, port: 80}]
    surrogates: [{name: b1, address: "10.0.0.3:80"}]
  q: {server_id: {layout: bytes, offset: 0, length: 2, map: {q1: "0102"}}, surrogates: [{name: q1, address: "10.0.0.4:443"}]}
`

func mustParse(t *testing.T, text string) *Config {
	t.Helper()
	cfg, err := Parse("f", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// TestNoDifferences: a file that is read again does not differ, also when its lines are elsewhere.
func TestNoDifferences(t *testing.T) {
	moved := "# a comment\n\n" + strings.ReplaceAll(compared, "\n  - {", "\n\n  - {")
	for _, again := range []string{compared, moved} {
		if got := Differences(mustParse(t, compared), mustParse(t, again)); len(got) != 0 {
			t.Errorf("differences %q of the same settings", got)
		}
	}
}

// TestDifferences: what is new, has changed and has gone.
func TestDifferences(t *testing.T) {
	for _, tt := range []struct {
		old, new string
		want     []string
	}{
		{"host: a.test", "host: b.test", []string{"VIP 10.9.9.1:80 has changed"}},
		{`"^/x"`, `"^/y"`, []string{"VIP 10.9.9.1:80 has changed"}},
		{"sni: a.test", "sni: b.test", []string{"VIP 10.9.9.2:443 of QUIC has changed"}},
		{"10.9.9.1:80", "10.9.9.3:80", []string{"VIP 10.9.9.3:80 is new", "VIP 10.9.9.1:80 has gone"}},
		{"path: /up", "path: /down", []string{"pool a has changed"}},
		{"10.0.0.0/8", "10.0.0.0/9", []string{"pool b has changed"}},
		{"dns: b.test", "dns: c.test", []string{"pool b has changed"}},
		{`"0102"`, `"0103"`, []string{"pool q has changed"}},
		{"10.0.0.2:80", "10.0.0.9:80", []string{"surrogate a2 has changed"}},
		{"name: a2", "name: a3", []string{"surrogate a3 is new", "surrogate a2 has gone"}},
		{"path: /var/log/a", "path: /var/log/b", []string{"log.access has changed"}},
	} {
		if !strings.Contains(compared, tt.old) {
			t.Fatalf("%q is not in the file", tt.old)
		}
		got := Differences(mustParse(t, compared), mustParse(t, strings.Replace(compared, tt.old, tt.new, 1)))
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s for %s: %q, want %q", tt.new, tt.old, got, tt.want)
		}
	}
}

// TestEveryFieldDiffers: each field of a VIP, a pool and a surrogate is compared, and none by an address in memory. Fields that come
// later are compared, too.
func TestEveryFieldDiffers(t *testing.T) {
	ignored := []string{"Line", "Surrogates", "Name", "Address", "Protocol"} // compared otherwise, or what values are compared by
	for what, of := range map[string]func(*Config) any{
		"VIP 10.9.9.1:80": func(c *Config) any { return &c.VIPs[0] },
		"pool a":          func(c *Config) any { return &c.Pools[0] },
		"surrogate a1":    func(c *Config) any { return &c.Pools[0].Surrogates[0] },
	} {
		fields := reflect.TypeOf(of(mustParse(t, compared))).Elem()
		for i := range fields.NumField() {
			name := fields.Field(i).Name
			if slices.Contains(ignored, name) {
				continue
			}
			before, after := mustParse(t, compared), mustParse(t, compared)
			change(t, reflect.ValueOf(of(after)).Elem().Field(i))
			if got := Differences(before, after); !slices.Contains(got, what+" has changed") {
				t.Errorf("another %s: %q, want that %s has changed", name, got, what)
			}
		}
	}
}

// change gives a field another value.
func change(t *testing.T, f reflect.Value) {
	t.Helper()
	switch f.Kind() {
	case reflect.String:
		f.SetString(f.String() + "x")
	case reflect.Bool:
		f.SetBool(!f.Bool())
	case reflect.Int, reflect.Int64:
		f.SetInt(f.Int() + 1)
	case reflect.Uint8, reflect.Uint16:
		f.SetUint(f.Uint() + 1)
	case reflect.Pointer:
		if f.IsNil() {
			f.Set(reflect.New(f.Type().Elem()))
			return
		}
		f.SetZero()
	case reflect.Slice:
		f.Set(reflect.Append(f, reflect.Zero(f.Type().Elem())))
	case reflect.Struct:
		change(t, f.Field(0))
	default:
		t.Fatalf("a %v: say here how it is changed", f.Type())
	}
}
