package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"baton/api"
)

// serve answers each call by a script's words, whatever it is.
func serve(t *testing.T, answer func(ctx context.Context, c *websocket.Conn, id json.RawMessage, method string)) Endpoint {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"jsonrpc"}})
		if err != nil {
			return
		}
		defer func() { _ = c.CloseNow() }()
		for {
			_, message, err := c.Read(r.Context())
			if err != nil {
				return
			}
			var call struct {
				ID     json.RawMessage
				Method string
			}
			if err := json.Unmarshal(message, &call); err != nil {
				t.Errorf("%s: %v", message, err)
				return
			}
			answer(r.Context(), c, call.ID, call.Method)
		}
	}))
	t.Cleanup(s.Close)
	return Endpoint{URL: s.URL}
}

func write(ctx context.Context, c *websocket.Conn, text string) {
	_ = c.Write(ctx, websocket.MessageText, []byte(text))
}

func TestAddress(t *testing.T) {
	for url, want := range map[string]string{
		"ws://10.0.0.1:8080": "ws://10.0.0.1:8080/v1/ws", "https://ctl.example/": "wss://ctl.example/v1/ws", "wss://[::1]:1/other": "wss://[::1]:1/other",
	} {
		if got, err := (Endpoint{URL: url}).address(); got != want || err != nil {
			t.Errorf("%s: %s, %v", url, got, err)
		}
	}
	for _, url := range []string{"", "10.0.0.1", "ftp://x", "ws://", "%"} {
		if got, err := (Endpoint{URL: url}).address(); err == nil {
			t.Errorf("%q is %s", url, got)
		}
	}
}

// TestAnswersAsTheyCome: an answer may be malformed, late, an error, or of another order of its members.
func TestAnswersAsTheyCome(t *testing.T) {
	e := serve(t, func(ctx context.Context, c *websocket.Conn, id json.RawMessage, method string) {
		switch method {
		case api.CallTopology:
			write(ctx, c, `{"params":{"topic":"rates","value":1},"method":"event","jsonrpc":"2.0"}`) // not as a controller writes it
			write(ctx, c, `{"result":{"hosts":[{"kind":"client"}]},"id":`+string(id)+`,"jsonrpc":"2.0"}`)
		case api.CallHello:
			write(ctx, c, `{"jsonrpc":"2.0","id":`+string(id)+`,"error":{"code":4403,"message":"no"}}`)
		case api.CallProxied: // never
		case api.CallSurrogates:
			write(ctx, c, `{"jsonrpc":"2.0","id":`+string(id)+`,"result":{"not":"a list"}}`)
		case api.CallSessions:
			_ = c.Close(websocket.StatusGoingAway, "the controller ends")
		}
	})
	c, err := Dial(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got, err := c.Topology(t.Context()); err != nil || len(got.Hosts) != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	select {
	case event := <-c.Events():
		if event.Topic != api.TopicRates || string(event.Value) != "1" {
			t.Errorf("%+v", event)
		}
	case <-time.After(5 * time.Second):
		t.Error("the event is lost")
	}
	var told *api.ControllerError
	if _, err := c.Hello(t.Context(), api.ControllerHello{}); !errors.As(err, &told) || told.Code != api.ControllerForbidden {
		t.Errorf("an error: %v", err)
	}
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := c.Proxied(short, api.ControllerProxied{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("no answer: %v", err)
	}
	if _, err := c.Surrogates(t.Context(), api.ControllerPage{}); err == nil {
		t.Error("an object is a list")
	}
	if _, err := c.Sessions(t.Context(), api.ControllerPage{}); !errors.Is(err, ErrNotConnected) || !strings.Contains(err.Error(), "the controller ends") {
		t.Errorf("the end: %v", err)
	}
	select {
	case <-c.Done():
	case <-time.After(5 * time.Second):
		t.Error("it is not done")
	}
}

// TestTooSlow: events that nobody reads end the connection; they do not fill the memory, and do not hold up calls before.
func TestTooSlow(t *testing.T) {
	e := serve(t, func(ctx context.Context, c *websocket.Conn, id json.RawMessage, method string) {
		for range queued + 10 {
			write(ctx, c, `{"jsonrpc":"2.0","method":"event","params":{"topic":"rates","value":1}}`)
		}
	})
	c, err := Dial(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.Unsubscribe(t.Context(), api.TopicRates)
	select {
	case <-c.Done():
		if !errors.Is(c.Err(), ErrTooSlow) {
			t.Error(c.Err())
		}
	case <-time.After(20 * time.Second):
		t.Error("the connection goes on")
	}
}

func TestNoControllerAtAll(t *testing.T) {
	if err := New(Config{}).Run(t.Context()); err == nil {
		t.Error("it runs without a controller")
	}
}
