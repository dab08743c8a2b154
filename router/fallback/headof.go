package fallback

import (
	"net"
	"net/http"
	"strings"

	"baton/router/head"
)

// HeadOf converts a request from net/http for route matching: its path is as sent, as after head.Parse, and not as package url writes it.
func HeadOf(req *http.Request) head.Request {
	path, query, _ := strings.Cut(head.OriginForm(req.RequestURI), "?")
	h := head.Request{Method: []byte(req.Method), Target: []byte(req.RequestURI), Path: []byte(path), Query: []byte(query)}
	host := req.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	h.Host = head.Lower([]byte(strings.TrimSuffix(host, ".")))
	for name, values := range req.Header {
		for _, v := range values {
			h.Fields = append(h.Fields, name+": "+v+"\r\n"...)
		}
	}
	return h
}
