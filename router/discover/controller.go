package discover

import (
	"context"
	"encoding/json"
	"errors"

	"baton/api"
	"baton/router/config"
	"baton/rpc"
)

// controller is a source that is an SDN controller: it says which surrogates there are, and which of them are near to clients of a network.
type controller struct{ of config.Discover }

// NewController makes a source of a controller, or of several that are tried one after another.
func NewController(of config.Discover) Source { return &controller{of} }

// Run follows the controller's distances. Without a controller what the last one said stays.
func (c *controller) Run(ctx context.Context, report func(Outcome)) {
	take := func(_ api.ControllerTopic, value json.RawMessage) { report(controllerOutcome(value, c.of.Prefix)) }
	calls := rpc.Config{
		Controllers: c.of.Controller.Endpoints(),
		Topics:      []api.ControllerTopic{api.TopicDistances}, Whole: take, Event: take,
		Lost: func(err error) {
			report(Outcome{Err: failed(Lost, "the connection to the controller has ended: %v", err)})
		},
		Failed: func(err error) {
			kind := Unreachable
			if errors.Is(err, rpc.ErrRefused) {
				kind = Refused
			}
			report(Outcome{Err: failed(kind, "%v", err)})
		},
	}
	_ = rpc.New(calls).Run(ctx) // ends with ctx alone: there is a URL
}

// controllerOutcome reads the distances of a controller. Surrogates in maintenance stay, with weight 0: their sessions go on. Whether one is up
// says the router's own check, which is nearer. A controller that knows no surrogate has just begun, or is wrong: it removes none.
func controllerOutcome(value json.RawMessage, prefix string) Outcome {
	var said api.ControllerDistances
	if err := json.Unmarshal(value, &said); err != nil {
		return Outcome{Err: failed(Malformed, "the controller's distances: %v", err)}
	}
	if len(said.Surrogates) == 0 {
		return Outcome{Err: failed(NoData, "the controller knows no surrogates")}
	}
	set := new(Set)
	for _, s := range said.Surrogates {
		sg := Surrogate{Name: prefix + s.Name, Address: s.Address, Weight: min(s.Weight, maxWeight)}
		if !config.SurrogateName.MatchString(sg.Name) || !sg.Address.IsValid() || sg.Address.Port() == 0 || sg.Weight < 0 {
			return Outcome{Err: failed(Malformed, "the controller's surrogate %q at %v with weight %d cannot be one", s.Name, s.Address, s.Weight)}
		}
		if s.State != api.InService {
			sg.Weight = 0
		}
		set.Surrogates = append(set.Surrogates, sg)
	}
	for _, z := range said.Zones {
		if !z.Prefix.IsValid() {
			return Outcome{Err: failed(Malformed, "the controller has a zone without a prefix")}
		}
		zone := config.Zone{Prefix: z.Prefix.Masked()}
		for _, name := range z.Surrogates {
			zone.Surrogates = append(zone.Surrogates, prefix+name)
		}
		set.Zones = append(set.Zones, zone)
	}
	set.Surrogates = sorted(set.Surrogates)
	return Outcome{Set: set}
}
