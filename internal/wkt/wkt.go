// Package wkt parses the well-known text (WKT) of coordinate reference systems.
package wkt

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Node is one element of a WKT: KEYWORD["text", value, NODE[...]].
type Node struct {
	Keyword string   // in upper case
	Values  []string // texts without quotes, and numbers
	Nodes   []*Node
}

const maxDepth = 32

// Parse parses a WKT of version 1 or 2.
func Parse(text string) (*Node, error) {
	n, rest, err := parseNode(text, 0)
	if err == nil && strings.TrimSpace(rest) != "" {
		err = ErrSyntax
	}
	return n, err
}

// ErrSyntax is returned for text that is not WKT.
var ErrSyntax = errors.New("not well-formed WKT")

func parseNode(text string, depth int) (n *Node, rest string, err error) {
	text = strings.TrimLeft(text, " \t\r\n")
	end := strings.IndexAny(text, "[(\",])")
	if end < 1 || text[end] != '[' && text[end] != '(' || depth > maxDepth {
		return nil, "", ErrSyntax
	}
	n = &Node{Keyword: strings.ToUpper(strings.TrimSpace(text[:end]))}
	closing := map[byte]byte{'[': ']', '(': ')'}[text[end]]
	for text = text[end:]; ; {
		text = strings.TrimLeft(text[1:], " \t\r\n")
		at := strings.IndexAny(text, "[(\",])")
		switch {
		case at < 0:
			return nil, "", ErrSyntax
		case text[at] == '"' && at == 0:
			var value strings.Builder
			for text = text[1:]; ; text = text[1:] {
				quote := strings.IndexByte(text, '"')
				if quote < 0 {
					return nil, "", ErrSyntax
				}
				value.WriteString(text[:quote])
				if text = text[quote+1:]; !strings.HasPrefix(text, `"`) { // a quote is written twice
					break
				}
				value.WriteByte('"')
			}
			n.Values = append(n.Values, value.String())
		case text[at] == '[' || text[at] == '(':
			child, after, err := parseNode(text, depth+1)
			if err != nil {
				return nil, "", err
			}
			n.Nodes = append(n.Nodes, child)
			text = after
		default:
			if value := strings.TrimSpace(text[:at]); value != "" {
				n.Values = append(n.Values, value)
			}
			text = text[at:]
		}
		text = strings.TrimLeft(text, " \t\r\n")
		switch {
		case text == "":
			return nil, "", ErrSyntax
		case text[0] == closing:
			return n, text[1:], nil
		case text[0] != ',':
			return nil, "", ErrSyntax
		}
	}
}

// Child returns the first node with one of the keywords, nil if there is none.
func (n *Node) Child(keywords ...string) *Node {
	for _, c := range n.Nodes {
		if slices.Contains(keywords, c.Keyword) {
			return c
		}
	}
	return nil
}

// Name returns the text at the start of a node.
func (n *Node) Name() string {
	if n == nil || len(n.Values) == 0 {
		return ""
	}
	return n.Values[0]
}

// Number returns the i-th value as a number, NaN if it is not one.
func (n *Node) Number(i int) float64 {
	if n == nil || i >= len(n.Values) {
		return math.NaN()
	}
	v, err := strconv.ParseFloat(n.Values[i], 64)
	if err != nil {
		return math.NaN()
	}
	return v
}

// EPSG returns EPSG's code of a node, 0 if it gives none.
func (n *Node) EPSG() int {
	if n == nil {
		return 0
	}
	a := n.Child("AUTHORITY", "ID")
	if a == nil || len(a.Values) < 2 || !strings.EqualFold(a.Values[0], "EPSG") {
		return 0
	}
	code, err := strconv.Atoi(a.Values[1])
	if err != nil || code < 0 || code > math.MaxUint16 {
		return 0
	}
	return code
}

// Parts returns the horizontal and the vertical part of a system. vertical is nil if there is none.
func (n *Node) Parts() (horizontal, vertical *Node) {
	if n.Keyword != "COMPD_CS" && n.Keyword != "COMPOUNDCRS" {
		return n, nil
	}
	if len(n.Nodes) < 2 {
		return nil, nil
	}
	return n.Nodes[0], n.Nodes[1]
}
