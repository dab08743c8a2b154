package policy

import (
	"cmp"
	"math"
	"net/netip"
)

// Coordinates are degrees north and east. The zero value is unknown: nobody has a site in the Gulf of Guinea.
type Coordinates struct{ Latitude, Longitude float64 }

func (c Coordinates) zero() bool { return c == Coordinates{} }

// earth is the mean radius in kilometres (IUGG).
const earth = 6371.0088

// Kilometres returns the length of the great circle between two places.
func (c Coordinates) Kilometres(to Coordinates) float64 {
	const degree = math.Pi / 180
	north, east := (to.Latitude-c.Latitude)*degree/2, (to.Longitude-c.Longitude)*degree/2
	h := math.Pow(math.Sin(north), 2) + math.Cos(c.Latitude*degree)*math.Cos(to.Latitude*degree)*math.Pow(math.Sin(east), 2)
	return 2 * earth * math.Asin(math.Sqrt(min(1, h))) // rounding may give more than 1 for opposite places
}

// compareDistance compares the distances of a and b from a place. Unknown places are the farthest.
func compareDistance(from, a, b Coordinates) int {
	return cmp.Compare(kilometres(from, a), kilometres(from, b))
}

func kilometres(from, to Coordinates) float64 {
	if from.zero() || to.zero() {
		return math.Inf(1)
	}
	return from.Kilometres(to)
}

// Place is what a database knows of an address.
type Place struct {
	Country string // ISO 3166-1, "AT"; "": unknown
	City    string // in English
	At      Coordinates
	Bits    int // length of the prefix for which that holds
}

// Geo finds the place of an address; false if it has none.
type Geo interface {
	Find(netip.Addr) (Place, bool)
}
