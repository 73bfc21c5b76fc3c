# Links what Verilator generated with the benches' C++; run in the folder with Vtop.mk. Beside that folder are
# links to this one (hdl) and to the folder of cocotb's libraries (libraries).
include Vtop.mk

VPATH += ../hdl
OBJECTS = memory.o protocol.o system.o $(VK_GLOBAL_OBJS) Vtop__ALL.a

../cocotb: cocotb_main.o $(OBJECTS)
	$(CXX) -o $@ $^ -lpthread -rdynamic -Wl,-rpath,'$$ORIGIN/libraries' -L../libraries -lcocotbvpi_verilator

../system.so: library.o $(OBJECTS)
	$(CXX) -o $@ -shared -Wl,-Bsymbolic -Wl,-z,defs $^ -lpthread
