package peers

import (
	"encoding/hex"
	"encoding/json"
	"strings"

	"baton/lab"
)

// AioquicListen is a port of a server of HTTP/3 with aioquic.
type AioquicListen struct {
	Port        int    `json:"port"`
	Certificate string `json:"certificate"` // file
	Key         string `json:"key"`         // file
	Retry       bool   `json:"retry"`       // validate every client's address by a Retry
	Named       bool   `json:"named"`       // its connection ids begin as AioquicOptions says, and have 12 bytes; others have 8
}

// AioquicOptions describe the server.
type AioquicOptions struct {
	Name   string // value of Header; default: the host's name
	IDs    string // how connection ids begin on ports that are Named
	Listen []AioquicListen
}

// AioquicServer serves the lab's Site by HTTP/3.
func AioquicServer(h *lab.Host, o AioquicOptions) *Server {
	h.Lab().T().Helper()
	name := orDefault(o.Name, h.Name())
	python, path := script(h.Lab(), "h3_server.py")
	options, err := json.Marshal(map[string]any{
		"site": Site(h.Lab()), "name": name, "header": Header, "ids": hex.EncodeToString([]byte(o.IDs)), "listen": o.Listen,
	})
	if err != nil {
		h.Lab().T().Fatalf("peers: aioquic on %s: %v", h.Name(), err)
	}
	p, err := h.Start(lab.Program{Path: python, Args: []string{path, string(options)}, Name: "aioquic"})
	if err != nil {
		h.Lab().T().Fatalf("peers: %v", err)
	}
	s := &Server{Process: p, Name: name, Port: o.Listen[0].Port}
	if err := s.ready("", "ready "); err != nil {
		h.Lab().T().Fatalf("peers: aioquic on %s: %v\n%s", h.Name(), err, s.Log())
	}
	_, version, _ := strings.Cut(s.Stdout(), "ready ")
	s.Version = "aioquic/" + strings.TrimSpace(version)
	return s
}
