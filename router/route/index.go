package route

import (
	"bytes"
	"strings"
)

// index finds the routes of a VIP that may match a request or a hello by its host, so that the time does not grow
// with the number of hosts. Routes are indices into the VIP's, in the file's order.
type index struct {
	all   int
	exact map[string][]int // of a host, or of a name in hellos
	below map[string][]int // of all names with this ending, ".example.net"
	any   []int            // of every host
}

// indexHosts indexes routes by their host.
func indexHosts(routes []rule) index {
	of := index{all: len(routes), exact: make(map[string][]int), below: make(map[string][]int)}
	for i := range routes {
		of.addRoute(routes[i].match.Host, i)
	}
	return of
}

// indexNames indexes routes by their name in hellos.
func indexNames(routes []rule) index {
	of := index{all: len(routes), exact: make(map[string][]int), below: make(map[string][]int)}
	for i := range routes {
		of.addRoute(routes[i].match.SNI, i)
	}
	return of
}

func (of *index) addRoute(name string, route int) {
	ending, wildcard := strings.CutPrefix(name, "*")
	switch {
	case wildcard && strings.HasPrefix(ending, "."):
		of.below[ending] = append(of.below[ending], route)
	case wildcard || name == "":
		of.any = append(of.any, route)
	default:
		of.exact[name] = append(of.exact[name], route)
	}
}

// findRoutes returns the routes that may match requests to a host. Those of a wildcard that is asked for as a host
// are among them.
func (of *index) findRoutes(host []byte) matching {
	m := matching{most: of.all}
	m.addList(of.any)
	m.addList(of.exact[string(host)])
	for at := bytes.IndexByte(host, '.'); at >= 0; {
		m.addList(of.below[string(host[at:])])
		next := bytes.IndexByte(host[at+1:], '.')
		if next < 0 {
			break
		}
		at += 1 + next
	}
	return m
}

// matching yields routes in the file's order.
type matching struct {
	lists [8][]int // each in that order
	used  int
	all   bool // there are more lists: all routes are yielded
	at    int  // of those
	most  int
}

func (m *matching) addList(list []int) {
	switch {
	case len(list) == 0:
	case m.used == len(m.lists):
		m.all = true
	default:
		m.lists[m.used] = list
		m.used++
	}
}

// nextRoute returns the next route; false: there is none.
func (m *matching) nextRoute() (int, bool) {
	if m.all {
		m.at++
		return m.at - 1, m.at <= m.most
	}
	first := -1
	for i := range m.lists[:m.used] {
		if list := m.lists[i]; len(list) > 0 && (first < 0 || list[0] < m.lists[first][0]) {
			first = i
		}
	}
	if first < 0 {
		return 0, false
	}
	route := m.lists[first][0]
	m.lists[first] = m.lists[first][1:]
	return route, true
}
