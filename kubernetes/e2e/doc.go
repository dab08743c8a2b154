// Package e2e runs the controller and a router against a real API server. The tests need root, and minutes to compile the API server.
package e2e
