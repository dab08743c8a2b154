package fallback

import (
	"net/http"
	"strings"

	"baton/router/head"
)

// HeadOf converts a request from net/http for route matching: its path is as sent, as after head.Parse, and not as package url writes it.
func HeadOf(req *http.Request) head.Request {
	path, query, _ := strings.Cut(head.OriginForm(req.RequestURI), "?")
	h := head.Request{Method: []byte(req.Method), Target: []byte(req.RequestURI), Path: []byte(path), Query: []byte(query)}
	h.Host, _ = head.HostOf([]byte(req.Host)) // whoever read the request has refused what is none
	for name, values := range req.Header {
		for _, v := range values {
			h.Fields = append(h.Fields, name+": "+v+"\r\n"...)
		}
	}
	return h
}
