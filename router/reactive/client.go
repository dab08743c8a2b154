package reactive

import (
	"context"
	"encoding/json"
	"log/slog"

	"baton/api"
	"baton/rpc"
)

// Connect returns a client of the controllers that introduces the router on each connection, and keeps the pool's surrogates as the
// controller has them. It connects while its Run runs.
func Connect(controllers []rpc.Endpoint, hello api.ControllerHello, pool *Pool, log *slog.Logger) *rpc.Client {
	return rpc.New(rpc.Config{
		Controllers: controllers, Log: log,
		Topics: []api.ControllerTopic{api.TopicSurrogates},
		Opened: func(ctx context.Context, c *rpc.Conn) error {
			welcome, err := c.Hello(ctx, hello)
			if err != nil {
				return err
			}
			pool.Set(welcome.Surrogates)
			pool.Renew()
			return nil
		},
		Whole: func(_ api.ControllerTopic, value json.RawMessage) {
			var all []api.ControllerSurrogate
			if err := json.Unmarshal(value, &all); err == nil && len(all) > 0 {
				pool.Set(all)
			}
		},
	})
}
