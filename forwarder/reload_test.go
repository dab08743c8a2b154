package forwarder

import (
	"reflect"
	"slices"
	"testing"

	"baton/forwarder/config"
	"baton/openflow"
)

// TestFixed: every setting is one that a reload puts in force, or one that it refuses by name.
func TestFixed(t *testing.T) {
	live := []string{"Controllers", "Listen", "File", "Warnings", "Datapaths"} // a reload of one forwarder to several is refused by itself
	change := map[string]func(*config.Config){
		"Name": func(c *config.Config) { c.Name = "x" }, "DatapathID": func(c *config.Config) { c.DatapathID = 1 },
		"Ports": func(c *config.Config) { c.Ports = []config.Port{{No: openflow.PortNo(1)}} }, "Local": func(c *config.Config) { c.Local = "x" },
		"TLS": func(c *config.Config) { c.TLS = &config.TLS{} }, "FailMode": func(c *config.Config) { c.FailMode = config.Standalone },
		"NormalStack": func(c *config.Config) { c.NormalStack = true }, "Retry": func(c *config.Config) { c.Retry.Most = 1 },
		"Limits": func(c *config.Config) { c.Limits.Tables = 1 }, "Metrics": func(c *config.Config) { c.Metrics = "x" },
		"Control": func(c *config.Config) { c.Control = "x" }, "State": func(c *config.Config) { c.State = "x" },
	}
	for field := range reflect.TypeFor[config.Config]().Fields() {
		if slices.Contains(live, field.Name) {
			continue
		}
		var next config.Config
		if change[field.Name] == nil {
			t.Errorf("what does a reload do with %s?", field.Name)
			continue
		}
		if change[field.Name](&next); len(fixed(&config.Config{}, &next)) != 1 {
			t.Errorf("%s: fixed are %v", field.Name, fixed(&config.Config{}, &next))
		}
	}
}
