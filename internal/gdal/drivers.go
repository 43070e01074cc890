package gdal

import (
	"encoding/xml"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"leat/ndarray"
)

// Driver is a format of the loaded GDAL.
type Driver struct {
	Name     string // short: "HFA"
	LongName string // "Erdas Imagine Images (.img)"
	// Raster and Vector say what the format holds, Read and Write what GDAL can do with its
	// rasters. Direct formats are written block by block, others by copying a complete raster.
	Raster, Vector      bool
	Read, Write, Direct bool
	Extensions          []string        // without the dot, the most common first
	Types               []ndarray.DType // pixel types that can be written; nil if the driver does not list them
	Options             []CreationOption
}

// CreationOption is a creation option of a Driver.
type CreationOption struct {
	Name        string   `xml:"name,attr"`
	Type        string   `xml:"type,attr"` // "string", "string-select", "int", "boolean", ...
	Values      []string `xml:"-"`         // of a "string-select"
	Min         string   `xml:"min,attr"`  // bound of numbers; empty for none
	Max         string   `xml:"max,attr"`
	Default     string   `xml:"default,attr"`
	Description string   `xml:"description,attr"`
	aliases     []string // of the name
	valueNames  []string // aliases of values
	vector      bool     // only for vectors
}

// Drivers lists the formats of the loaded GDAL, in its order.
func Drivers() ([]Driver, error) {
	if err := load(); err != nil {
		return nil, err
	}
	var list []Driver
	onThread(func() {
		for i := range c.GDALGetDriverCount() {
			list = append(list, describeDriver(c.GDALGetDriver(i)))
		}
	})
	return list, nil
}

// DriverByName returns the format with a short name, regardless of case.
func DriverByName(name string) (Driver, error) {
	if err := errors.Join(checkText(name, "format", name), load()); err != nil {
		return Driver{}, err
	}
	var d Driver
	onThread(func() {
		if h := c.GDALGetDriverByName(name); h != 0 {
			d = describeDriver(h)
		}
	})
	if d.Name == "" {
		release, _ := Version()
		return d, fmt.Errorf("GDAL %s has no format %q", release, name)
	}
	return d, nil
}

func describeDriver(h hDriver) Driver {
	o := hObject(h)
	item := func(name string) string { return c.GDALGetMetadataItem(o, name, "") }
	yes := func(name string) bool { return strings.EqualFold(item(name), "YES") }
	d := Driver{Name: c.GDALGetDescription(o), LongName: item("DMD_LONGNAME"), Raster: yes("DCAP_RASTER"),
		Vector: yes("DCAP_VECTOR"), Direct: yes("DCAP_CREATE")}
	d.Read = d.Raster && yes("DCAP_OPEN")
	switch d.Name {
	case "VRT", "MEM", "DERIVED": // without pixels, or without a file
		d.Direct = false
	case "FIT", "KMLSUPEROVERLAY": // GDAL changes pixels, and divides by zero for very wide rasters
		d.Direct = false
	default:
		copies := yes("DCAP_CREATECOPY")
		d.Write = d.Raster && (d.Direct || copies)
		switch d.Name {
		case "MRF", "NITF", "PCRaster", "PDF":
			// Only GDALCreateCopy writes the CRS, the kind of coordinates or values, or any pixels.
			d.Direct = d.Direct && !copies
		}
	}
	d.Direct = d.Direct && d.Write
	d.Extensions = strings.Fields(item("DMD_EXTENSIONS"))
	if usual := item("DMD_EXTENSION"); usual != "" {
		d.Extensions = append([]string{usual},
			slices.DeleteFunc(d.Extensions, func(e string) bool { return e == usual })...)
	}
	for _, name := range strings.Fields(item("DMD_CREATIONDATATYPES")) {
		if t, err := ndarray.ParseDType(name); err == nil && t != ndarray.Float16 {
			d.Types = append(d.Types, t)
		}
	}
	d.Options = creationOptions(item("DMD_CREATIONOPTIONLIST"))
	if findOption(d.RasterOptions(), "PIXELTYPE") != nil && slices.Contains(d.Types, ndarray.Uint8) && !slices.Contains(d.Types,
		ndarray.Int8) {
		d.Types = append(d.Types, ndarray.Int8) // as in GDAL before 3.7
	}
	return d
}

// ReadAs returns the name of the format with which GDAL reads files that are written in the format
// name. It is usually the same.
func ReadAs(name string) string {
	switch name {
	case "COG":
		return "GTiff"
	case "HDF4Image":
		return "HDF4"
	}
	return name
}

func creationOptions(text string) []CreationOption {
	var doc struct {
		Options []struct {
			CreationOption
			Alias      string `xml:"alias,attr"`
			Deprecated string `xml:"deprecated_alias,attr"`
			Scope      string `xml:"scope,attr"`
			Choices    []struct {
				Alias      string `xml:"alias,attr"`
				Deprecated string `xml:"deprecated_alias,attr"`
				Text       string `xml:",chardata"`
			} `xml:"Value"`
		} `xml:"Option"`
	}
	if text == "" || xml.Unmarshal([]byte(text), &doc) != nil {
		return nil
	}
	var list []CreationOption
	for _, o := range doc.Options {
		p := o.CreationOption
		p.vector = o.Scope == "vector"
		p.aliases = strings.FieldsFunc(o.Alias+","+o.Deprecated, func(r rune) bool { return r == ',' || r == ' ' })
		for _, v := range o.Choices {
			p.Values = append(p.Values, strings.TrimSpace(v.Text))
			for _, alias := range []string{v.Alias, v.Deprecated} {
				if alias != "" {
					p.valueNames = append(p.valueNames, alias)
				}
			}
		}
		list = append(list, p)
	}
	return list
}

// RasterOptions returns the creation options of rasters.
func (d *Driver) RasterOptions() []CreationOption {
	return slices.DeleteFunc(slices.Clone(d.Options), func(o CreationOption) bool { return o.vector })
}

// findOption returns the option of that name, or nil.
func findOption(options []CreationOption, name string) *CreationOption {
	for i, o := range options {
		if strings.EqualFold(o.Name, name) || containsFold(o.aliases, name) {
			return &options[i]
		}
	}
	return nil
}

func containsFold(list []string, s string) bool {
	return slices.ContainsFunc(list, func(e string) bool { return strings.EqualFold(e, s) })
}

// CheckOptions returns an error for all creation options KEY=VALUE that the format does not have or
// whose value it does not accept. GDAL itself only warns. A format that lists no options has none.
func (d *Driver) CheckOptions(options []string) error {
	return checkOptions("creation option", "the format "+d.Name, d.RasterOptions(), options)
}

// checkOptions returns an error for options of a kind, KEY=VALUE, that owner does not have or whose
// value it does not accept.
func checkOptions(kind, owner string, has []CreationOption, options []string) error {
	var errs []error
	for _, s := range options {
		key, value, ok := strings.Cut(s, "=")
		if !ok || key == "" {
			errs = append(errs, fmt.Errorf("the %s %q is not KEY=VALUE", kind, s))
		} else if o := findOption(has, key); o == nil {
			names := "none"
			for i, o := range has {
				if i == 0 {
					names = o.Name
				} else {
					names += ", " + o.Name
				}
			}
			errs = append(errs, fmt.Errorf("%s has no %s %s; it has %s", owner, kind, key, names))
		} else if fault := o.invalidReason(value); fault != "" {
			errs = append(errs, fmt.Errorf("the %s %s of %s can't be %q: %s", kind, o.Name, owner, value, fault))
		}
	}
	return errors.Join(errs...)
}

// invalidReason returns why a value is not valid for the option, or "".
func (o *CreationOption) invalidReason(value string) string {
	number := func(v float64, err error, kind string) string {
		lo, noLo := strconv.ParseFloat(o.Min, 64)
		hi, noHi := strconv.ParseFloat(o.Max, 64)
		switch {
		case err != nil:
			return "it takes " + kind
		case noLo == nil && v < lo:
			return "it takes " + o.Min + " and more"
		case noHi == nil && v > hi:
			return "it takes at most " + o.Max
		}
		return ""
	}
	switch strings.ToLower(o.Type) {
	case "string-select":
		if len(o.Values) > 0 && !containsFold(o.Values, value) && !containsFold(o.valueNames, value) {
			return "it takes " + strings.Join(o.Values, ", ")
		}
	case "boolean":
		if !containsFold([]string{"YES", "NO", "TRUE", "FALSE", "ON", "OFF", "1", "0"}, value) {
			return "it takes YES or NO"
		}
	case "int", "integer":
		v, err := strconv.ParseInt(value, 10, 64)
		return number(float64(v), err, "a whole number")
	case "unsigned int":
		v, err := strconv.ParseUint(value, 10, 64)
		return number(float64(v), err, "a whole number")
	case "float", "double":
		v, err := strconv.ParseFloat(value, 64)
		return number(v, err, "a number")
	}
	return ""
}

// checkType returns an error for a pixel type that the format can't hold: GDAL would convert it.
func (d *Driver) checkType(t ndarray.DType) error {
	if gdalType(t) == 0 {
		release, _ := Version()
		return fmt.Errorf("GDAL %s has no pixel type %v", release, t)
	}
	// The lists of the GeoTIFF drivers, and perhaps of others, lack newer types that they can hold.
	// With direct formats, checkTypes finds out before pixels are written.
	young := t == ndarray.Int8 || t == ndarray.Int64 || t == ndarray.Uint64
	if d.Types != nil && !slices.Contains(d.Types, t) && !(young && (d.Direct || d.Name == "COG")) {
		names := make([]string, len(d.Types))
		for i, t := range d.Types {
			names[i] = t.String()
		}
		return fmt.Errorf("the format %s can't hold pixels of type %v; it can hold %s", d.Name, t,
			strings.Join(names, ", "))
	}
	return nil
}
