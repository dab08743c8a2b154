package northbound

import (
	"bufio"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/coder/websocket"
)

// TestAccessChanges: a token that is taken away ends its connections.
func TestAccessChanges(t *testing.T) {
	f := start(t, nil)
	stays, goes := f.dial(t, Viewer), f.dial(t, Operator)
	f.SetAccess(Access{Tokens: []Token{NewToken(Viewer, secrets[Viewer], "the-viewer")}})
	if code := goes.closedWith(); code != websocket.StatusPolicyViolation {
		t.Errorf("closed with %v", code)
	}
	if _, code, _ := stays.call("topology", "{}"); code != 0 {
		t.Errorf("the other: %d", code)
	}
	if status, _, _ := f.request(t, Operator, "GET", "/v1/topology", ""); status != 401 {
		t.Errorf("the old token: %d", status)
	}
}

// admitted is a handshake of which the server has not been told yet that it has ended.
type admitted struct {
	http.ResponseWriter
	then func()
}

func (a *admitted) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	a.then()
	return http.NewResponseController(a.ResponseWriter).Hijack()
}

// TestAccessChangesEarly: so it is with a connection that is being admitted.
func TestAccessChangesEarly(t *testing.T) {
	f := start(t, nil)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.webSocket(&admitted{w, func() { f.SetAccess(Access{}) }}, r)
	}))
	t.Cleanup(server.Close)
	f.address = server.Listener.Addr().String()
	if code := f.dial(t, Operator).closedWith(); code != websocket.StatusPolicyViolation {
		t.Errorf("closed with %v", code)
	}
}
