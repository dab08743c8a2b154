// Package sources follows what surrogates come from beside the configuration file: sources (package discover) and changes by API.
// It merges them with the file, has the result put in force, and saves what a restart needs.
package sources
