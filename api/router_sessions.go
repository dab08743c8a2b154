package api

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
)

// RouterSessionsQuery selects sessions. The zero query selects all.
type RouterSessionsQuery struct {
	Client    netip.Prefix // of clients' addresses; the zero Prefix: any
	Surrogate string       // "": any
	Limit     int          // the most sessions to list; 0: all. A count has no limit
}

// RouterSessionCount is the number of sessions that a query selects.
type RouterSessionCount struct {
	Sessions int `json:"sessions"`
}

func (q *RouterSessionsQuery) selectsSession(s *RouterSession) bool {
	return (!q.Client.IsValid() || q.Client.Contains(s.Client.Addr())) && (q.Surrogate == "" || q.Surrogate == s.Surrogate)
}

// encodeQuery returns the query of a URL, with its question mark.
func (q *RouterSessionsQuery) encodeQuery() string {
	values := url.Values{}
	if q.Client.IsValid() {
		values.Set("client", q.Client.String())
	}
	if q.Surrogate != "" {
		values.Set("surrogate", q.Surrogate)
	}
	if q.Limit > 0 {
		values.Set("limit", strconv.Itoa(q.Limit))
	}
	if len(values) == 0 {
		return ""
	}
	return "?" + values.Encode()
}

func parseSessionsQuery(r *http.Request) (q RouterSessionsQuery, err error) {
	values := r.URL.Query()
	q.Surrogate = values.Get("surrogate")
	if text := values.Get("client"); text != "" {
		if q.Client, err = netip.ParsePrefix(text); err != nil {
			return q, fmt.Errorf("%w: client %q is not a prefix, such as 192.0.2.0/24", ErrInvalid, text)
		}
	}
	if text := values.Get("limit"); text != "" {
		if q.Limit, err = strconv.Atoi(text); err != nil || q.Limit < 0 {
			return q, fmt.Errorf("%w: limit %q is not a number of sessions", ErrInvalid, text)
		}
	}
	return q, nil
}

type listSessions = func(ctx context.Context, yield func(RouterSession) bool) error

// selectedSessions lists what a query selects, or fails with the error in parsing it.
func (b *RouterBackend) selectedSessions(q *RouterSessionsQuery, err error) listSessions {
	if b.Sessions == nil {
		return nil
	}
	return func(ctx context.Context, yield func(RouterSession) bool) error {
		if err != nil {
			return err
		}
		listed := 0
		return b.Sessions(ctx, func(s RouterSession) bool {
			if !q.selectsSession(&s) {
				return ctx.Err() == nil // the client may leave while nothing is written to it
			}
			listed++
			return yield(s) && listed != q.Limit
		})
	}
}

// countedSessions counts what a query selects.
func (b *RouterBackend) countedSessions(
	q *RouterSessionsQuery, err error,
) func(context.Context) (RouterSessionCount, error) {
	all := *q
	all.Limit = 0
	list := b.selectedSessions(&all, err)
	if list == nil {
		return nil
	}
	return func(ctx context.Context) (n RouterSessionCount, err error) {
		err = list(ctx, func(RouterSession) bool {
			n.Sessions++
			return ctx.Err() == nil
		})
		return n, err
	}
}

// RouterSessions yields the sessions that a query selects as the router finds them. An error ends the sequence; a
// truncated list ends with one.
func (c *Client) RouterSessions(ctx context.Context, q RouterSessionsQuery) iter.Seq2[RouterSession, error] {
	return lines[RouterSession](ctx, c, "/v1/router/sessions"+q.encodeQuery())
}

// RouterSessionCount counts the sessions that a query selects, without its limit.
func (c *Client) RouterSessionCount(ctx context.Context, q RouterSessionsQuery) (int, error) {
	q.Limit = 0
	n, err := ask[RouterSessionCount](ctx, c, http.MethodGet, "/v1/router/sessions/count"+q.encodeQuery(), nil)
	return n.Sessions, err
}
