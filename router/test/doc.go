// Package test is the router's laboratories: real clients, real servers and a router between them, in network namespaces of their
// own. Files named fault_ break something on purpose.
package test
