module weir/device/cpu/gen

go 1.26.0
