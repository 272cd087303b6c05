// Package chaos lets things happen to hosts, plugins and deploy items at random, on a real API server, and judges
// from the server's audit log and the plugin's evidence whether the hosts have kept their promises at each write.
package chaos
