package discovertest

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/coder/websocket"

	"baton/api"
)

// Controller is a northbound that knows the topic distances alone. What it says may change, and need not make sense.
type Controller struct {
	token string
	end   context.CancelFunc
	ctx   context.Context
	done  chan struct{}

	mu    sync.Mutex
	said  json.RawMessage
	hears map[*websocket.Conn]struct{}
}

// ServeController answers those who have the token, until stop is called. It closes the listener, and its connections without a word.
func ServeController(l net.Listener, token string, said json.RawMessage) (c *Controller, stop func()) {
	c = &Controller{token: token, said: said, hears: make(map[*websocket.Conn]struct{}), done: make(chan struct{})}
	c.ctx, c.end = context.WithCancel(context.Background())
	server := &http.Server{Handler: http.HandlerFunc(c.serve), ReadHeaderTimeout: 10 * time.Second}
	go func() {
		defer close(c.done)
		_ = server.Serve(l)
	}()
	return c, func() {
		c.end()
		_ = server.Close()
		<-c.done
	}
}

// Say changes the distances, and tells all who hear them.
func (c *Controller) Say(distances json.RawMessage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.said = distances
	for to := range c.hears {
		c.write(to, fmt.Sprintf(`{"jsonrpc":"2.0","method":%q,"params":{"topic":%q,"value":%s}}`, api.EventMethod, api.TopicDistances, distances))
	}
}

func (c *Controller) write(to *websocket.Conn, text string) {
	ctx, cancel := context.WithTimeout(c.ctx, 5*time.Second)
	defer cancel()
	_ = to.Write(ctx, websocket.MessageText, []byte(text))
}

func (c *Controller) serve(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer "+c.token {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{api.ControllerSubprotocol}})
	if err != nil {
		return
	}
	defer func() {
		c.mu.Lock()
		delete(c.hears, conn)
		c.mu.Unlock()
		_ = conn.CloseNow()
	}()
	for {
		_, message, err := conn.Read(c.ctx)
		if err != nil {
			return
		}
		var call struct {
			ID     json.RawMessage
			Method string
		}
		if json.Unmarshal(message, &call) != nil || call.Method != api.CallSubscribe {
			c.write(conn, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"there is no such call"}}`, call.ID))
			continue
		}
		c.mu.Lock()
		c.write(conn, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{%q:%s}}`, call.ID, api.TopicDistances, c.said))
		c.hears[conn] = struct{}{}
		c.mu.Unlock()
	}
}
