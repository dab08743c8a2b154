package northbound

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/quick"

	"baton/api"
)

// FuzzMessage: whatever arrives is answered by JSON-RPC, or by nothing.
func FuzzMessage(f *testing.F) {
	for _, seed := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"topology"}`, `[{"jsonrpc":"2.0","id":"a","method":"subscribe","params":{"topics":["rates"]}}]`,
		`{"jsonrpc":"2.0","id":1,"method":"setrequestsize","params":{"client":"10.1.0.2:4","service":"10.9.9.9:80","size":78}}`,
		`{"jsonrpc":"2.0","id":1,"method":"hello","params":{"name":"a","service":"[::1]:80"}}`, `[]`, `null`, `{"jsonrpc":"2.0","method":"x"}`,
		`{"jsonrpc":"2.0","id":1,"method":"setsurrogate","params":{"name":"se1","change":{"weight":1}}}`, `{"id":1e400}`, `[[[[`, "\xff",
	} {
		f.Add([]byte(seed))
	}
	x := &fixture{hub: NewHub(), log: &syncBuffer{}}
	s := New(Config{Source: x.source(), Calls: x.modules(), Hub: x.hub})
	f.Fuzz(func(t *testing.T, message []byte) {
		c := &connection{server: s, who: Caller{Role: Operator}, sub: x.hub.join(func() {})}
		c.holder = s.budget.join(&holder{queued: c.sub.bytes.Load})
		defer s.budget.leave(c.holder)
		defer x.hub.leave(c.sub)
		requests, made := s.parse(message)
		if requests != nil {
			made = s.handle(t.Context(), c, requests)
			if s.budget.held != made.bytes {
				t.Fatalf("%q: %d bytes are held, of an answer of %d", message, s.budget.held, made.bytes)
			}
		}
		answer := bytes.Join(made.parts, nil)
		x.calls = nil
		if len(answer) == 0 {
			return
		}
		var all []json.RawMessage
		if answer[0] != '[' {
			all = []json.RawMessage{answer}
		} else if err := json.Unmarshal(answer, &all); err != nil || len(all) == 0 {
			t.Fatalf("%q is answered by %q", message, answer)
		}
		for _, one := range all {
			var r map[string]json.RawMessage
			if err := json.Unmarshal(one, &r); err != nil || string(r["jsonrpc"]) != `"2.0"` || r["id"] == nil || (r["result"] == nil) == (r["error"] == nil) {
				t.Fatalf("%q is answered by %q", message, answer)
			}
		}
	})
}

func FuzzTokens(f *testing.F) {
	f.Add([]byte("viewer 0123456789abcdef page\n# x\noperator sha256:00 y"))
	f.Fuzz(func(t *testing.T, text []byte) {
		tokens, err := parseTokens("f", text, 0o600)
		if len(tokens) == 0 && err == nil {
			t.Error("no token and no error")
		}
		for _, token := range tokens {
			if token.Role == Nobody || token.Name == "" {
				t.Errorf("%+v", token)
			}
		}
	})
}

// TestPages: pages of any size, one after another, are the list.
func TestPages(t *testing.T) {
	property := func(n uint8, size uint8) bool {
		var list []api.ControllerHandoff
		for id := range uint64(n) {
			list = append(list, api.ControllerHandoff{ID: id + 1})
		}
		rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		s := New(Config{Source: Source{Handoffs: func() []api.ControllerHandoff { return list }}})
		var got []uint64
		p := api.ControllerPage{Limit: int(size%20) + 1}
		for {
			part, err := s.handoffs(p)
			if err != nil {
				return false
			}
			if len(part) == 0 {
				break
			}
			for _, h := range part {
				got = append(got, h.ID)
			}
			text, err := json.Marshal(part[len(part)-1].ID)
			if err != nil {
				return false
			}
			p.After = string(text)
		}
		slices.Reverse(got)
		for i, id := range got {
			if id != uint64(i+1) {
				return false
			}
		}
		return len(got) == int(n)
	}
	if err := quick.Check(property, nil); err != nil {
		t.Error(err)
	}
}
