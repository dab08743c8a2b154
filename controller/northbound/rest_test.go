package northbound

import (
	"encoding/json"
	"flag"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"baton/api"
)

func TestREST(t *testing.T) {
	f := start(t, func(c *Config) {
		c.Page = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("the page")) })
	})
	for _, tt := range []struct {
		method, path, text string
		role               Role
		status             int
		body               string
	}{
		{"GET", "/v1/topology", "", Viewer, 200, `"name":"access"`},
		{"GET", "/v1/switches", "", Viewer, 200, `[{"id":"0000000000000001"`},
		{"GET", "/v1/sessions", "", Viewer, 200, `10.1.0.2:40000`},
		{"GET", "/v1/sessions?limit=1&after=10.1.0.2:40000+10.9.9.9:80", "", Viewer, 200, `[{"client":"10.1.0.3:1"`},
		{"GET", "/v1/sessions?limit=0", "", Viewer, 422, `query.limit`},
		{"GET", "/v1/sessions?limit=x", "", Viewer, 422, `query.limit`},
		{"GET", "/v1/sessions?limt=1", "", Viewer, 422, `limt`},
		{"GET", "/v1/sessions?after=x", "", Viewer, 400, `after does not name an item`},
		{"GET", "/v1/handoffs?limit=1", "", Viewer, 200, `[{"id":3`},
		{"GET", "/v1/handoffs?after=1", "", Viewer, 200, `[]`},
		{"GET", "/v1/surrogates", "", Viewer, 200, `[{"name":"se1"`},
		{"GET", "/v1/decisions?limit=1", "", Viewer, 200, `"method":"handoff"`},
		{"GET", "/v1/decisions?after=yesterday", "", Viewer, 400, `after does not name`},
		{"PATCH", "/v1/surrogates/se1", `{"weight":7}`, Operator, 200, `"weight":7`},
		{"PATCH", "/v1/surrogates/se9", `{"weight":7}`, Operator, 404, `not found`},
		{"PATCH", "/v1/surrogates/se1", `{"weight":7000}`, Operator, 400, `change.weight is from 0 to 1000`},
		{"PATCH", "/v1/surrogates/se1", `{"wait":7}`, Operator, 422, `unexpected property`},
		{"PATCH", "/v1/surrogates/se1", `{`, Operator, 400, ``},
		{"PATCH", "/v1/surrogates/se1", ``, Operator, 400, `request body is required`},
		{"DELETE", "/v1/surrogates/se1", ``, Operator, 404, ``},
		{"GET", "/v1/nothing", "", Viewer, 404, `see /v1/docs`},
		{"GET", "/", "", Nobody, 200, `the page`},
		{"GET", "/v1/ws", "", Viewer, 426, ``},
	} {
		status, body, header := f.request(t, tt.role, tt.method, tt.path, tt.text)
		if status != tt.status || !strings.Contains(body, tt.body) {
			t.Errorf("%s %s %s: %d %s, want %d %s", tt.method, tt.path, tt.text, status, body, tt.status, tt.body)
		}
		if kind := header.Get("Content-Type"); status == 422 && kind != "application/problem+json" {
			t.Errorf("%s: the error is %s", tt.path, kind)
		}
	}
	if log := f.log.String(); !strings.Contains(log, `msg=change call=setsurrogate caller=the-operator role=operator from=127.0.0.1:`) ||
		!strings.Contains(log, `surrogate=se1 weight=7`) {
		t.Errorf("the change is not in the log: %s", log)
	}
}

// TestCrossSite: a page elsewhere changes nothing where the browser has the rights by itself.
func TestCrossSite(t *testing.T) {
	f := start(t, func(c *Config) { c.Access = Access{Open: true} })
	for origin, status := range map[string]int{"": 200, "https://evil.example": 403} {
		r, err := http.NewRequestWithContext(t.Context(), "PATCH", "http://"+f.address+"/v1/surrogates/se1", strings.NewReader(`{"weight":1}`))
		if err != nil {
			t.Fatal(err)
		}
		if origin != "" {
			r.Header.Set("Origin", origin)
		}
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != status {
			t.Errorf("from %q: %d, want %d", origin, res.StatusCode, status)
		}
	}
}

// TestEmptyController: what the modules have not given is told as such.
func TestEmptyController(t *testing.T) {
	f := start(t, func(c *Config) { c.Source, c.Calls = Source{}, Calls{} })
	for _, path := range []string{"topology", "switches", "sessions", "handoffs", "surrogates", "decisions"} {
		if status, body, _ := f.request(t, Viewer, "GET", "/v1/"+path, ""); status != 503 || !strings.Contains(body, "this controller has no") {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	p := f.dial(t, Operator)
	key := `"client":"10.1.0.2:4","service":"10.9.9.9:80"`
	for method, params := range map[string]string{
		"hello": `{"name":"a","service":"10.9.9.9:80"}`, "setrequestsize": `{` + key + `,"size":1}`, "getmatchingsess": `{` + key + `}`,
		"proxied": `{` + key + `,"why":""}`, "setsurrogate": `{"name":"a","change":{"weight":1}}`, "subscribe": `{"topics":["rates"]}`,
	} {
		if _, code, message := p.call(method, params); code != api.ControllerUnavailable {
			t.Errorf("%s: %d %s", method, code, message)
		}
	}
	if f.hub.Watched(api.TopicRates) {
		t.Error("a failed subscription is one")
	}
}

var update = flag.Bool("update", false, "write the description of the REST view to docs")

// TestDescriptionInDocs: the description that people read without a controller is that of the types.
func TestDescriptionInDocs(t *testing.T) {
	const file = "../../docs/northbound-openapi.json"
	f := start(t, func(c *Config) { c.Version = "v1" })
	_, text, _ := f.request(t, Nobody, "GET", "/v1/openapi.json", "")
	text += "\n"
	if *update {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if there, err := os.ReadFile(file); err != nil || string(there) != text {
		t.Errorf("%s is another one (%v): go test ./controller/northbound -run TestDescriptionInDocs -update", file, err)
	}
}

// TestDescription: OpenAPI has every path, and the page names them and loads nothing.
func TestDescription(t *testing.T) {
	f := start(t, nil)
	status, text, header := f.request(t, Nobody, "GET", "/v1/openapi.json", "")
	var o struct {
		OpenAPI    string
		Paths      map[string]map[string]any
		Components struct{ Schemas map[string]any }
	}
	if err := json.Unmarshal([]byte(text), &o); err != nil || status != 200 || !strings.HasPrefix(o.OpenAPI, "3.1") {
		t.Fatalf("%d %s %v", status, o.OpenAPI, err)
	}
	if kind := header.Get("Content-Type"); !strings.HasPrefix(kind, "application/vnd.oai.openapi+json") {
		t.Error(kind)
	}
	_, page, header := f.request(t, Nobody, "GET", "/v1/docs", "")
	for _, path := range []string{"/v1/topology", "/v1/switches", "/v1/sessions", "/v1/handoffs", "/v1/surrogates", "/v1/surrogates/{name}", "/v1/decisions"} {
		if o.Paths[path] == nil || !strings.Contains(page, path+"<") {
			t.Errorf("%s is not described", path)
		}
	}
	for _, name := range []string{"ControllerSession", "ControllerHandoff", "ControllerStep", "RoutingDecision", "ControllerSurrogateChange", "RouterLeg"} {
		if o.Components.Schemas[name] == nil || !strings.Contains(page, `id="`+name+`"`) {
			t.Errorf("%s is not described", name)
		}
	}
	for method := range f.methods {
		if !strings.Contains(page, "<td>"+method+"</td>") {
			t.Errorf("the page has no %s", method)
		}
	}
	if elsewhere := regexp.MustCompile(`(src|href)="(https?:)?//|<script|@import|url\(`).FindString(page); elsewhere != "" {
		t.Errorf("the page loads %s", elsewhere)
	}
	if !strings.Contains(header.Get("Content-Security-Policy"), "default-src 'none'") {
		t.Error("the page has no policy")
	}
}
