package anycast

import "baton/datapath"

// Needs is what a site needs of a host; a planner needs nothing.
var Needs = []datapath.Need{{Feature: datapath.CapNetAdmin, Without: "it cannot add the service's addresses to an interface"}}
