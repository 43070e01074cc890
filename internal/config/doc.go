// Package config reads leat's configuration file: lines KEY = VALUE, which hold for every run, and
// below [NAME] those of the profile NAME. A line that begins with # or ; is a comment. A value is
// the rest of its line.
//
// The parser is our own because libraries for INI and TOML drop the line that a value comes from,
// which errors and leat config show name.
package config
