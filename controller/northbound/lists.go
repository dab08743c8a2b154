package northbound

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"baton/api"
)

// mostItems bounds a page, and what a subscription of a list begins with.
const mostItems = 1000

// page returns the items of a list after the given one. The list is a copy, and is sorted; it is in the order of compare, and item is the one that after names: it
// need not exist any more.
func page[T any](list []T, p api.ControllerPage, parse func(after string) (T, bool), compare func(a, b T) int) ([]T, error) {
	if p.Limit < 0 || p.Limit > mostItems {
		return nil, invalid("limit", "is from 1 to %d", mostItems)
	}
	slices.SortStableFunc(list, compare)
	if p.After != "" {
		item, ok := parse(p.After)
		if !ok {
			return nil, invalid("after", "does not name an item of this list")
		}
		i, _ := slices.BinarySearchFunc(list, item, compare)
		for i < len(list) && compare(list[i], item) == 0 {
			i++
		}
		list = list[i:]
	}
	most := p.Limit
	if most == 0 {
		most = mostItems
	}
	if list = list[:min(most, len(list))]; list == nil {
		list = []T{} // a list in JSON
	}
	return list, nil
}

// sessions are in the order of their addresses.
func (s *Server) sessions(p api.ControllerPage) ([]api.ControllerSession, error) {
	if s.source.Sessions == nil {
		return nil, unavailable("sessions")
	}
	return page(s.source.Sessions(), p, func(after string) (v api.ControllerSession, ok bool) {
		client, service, _ := strings.Cut(after, " ")
		return v, v.Client.UnmarshalText([]byte(client)) == nil && v.Service.UnmarshalText([]byte(service)) == nil && session(v.Client, v.Service)
	}, func(a, b api.ControllerSession) int {
		return cmp.Or(a.Client.Compare(b.Client), a.Service.Compare(b.Service))
	})
}

// handoffs are the newest first.
func (s *Server) handoffs(p api.ControllerPage) ([]api.ControllerHandoff, error) {
	if s.source.Handoffs == nil {
		return nil, unavailable("handoffs")
	}
	return page(s.source.Handoffs(), p, func(after string) (v api.ControllerHandoff, ok bool) {
		id, err := strconv.ParseUint(after, 10, 64)
		v.ID = id
		return v, err == nil
	}, func(a, b api.ControllerHandoff) int { return cmp.Compare(b.ID, a.ID) })
}

// surrogates are in the order of their names.
func (s *Server) surrogates(p api.ControllerPage) ([]api.ControllerSurrogate, error) {
	if s.source.Surrogates == nil {
		return nil, unavailable("surrogates")
	}
	return page(s.source.Surrogates(), p, func(after string) (v api.ControllerSurrogate, ok bool) {
		v.Name = after
		return v, true
	}, func(a, b api.ControllerSurrogate) int { return strings.Compare(a.Name, b.Name) })
}

// decisions are the newest first.
func (s *Server) decisions(p api.ControllerPage) ([]api.RoutingDecision, error) {
	if s.source.Decisions == nil {
		return nil, unavailable("decisions")
	}
	return page(s.source.Decisions(), p, func(after string) (v api.RoutingDecision, ok bool) {
		t, err := time.Parse(time.RFC3339Nano, after)
		v.Time = t
		return v, err == nil
	}, func(a, b api.RoutingDecision) int { return b.Time.Compare(a.Time) })
}
